"""`challenge score` on labels: golden files accepted and refused, the published row, intervals."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from challenge_runs import challenge, results, scores
from sklearn.metrics import matthews_corrcoef

from panendofm.scoring.statistics.ranking import four_digits

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "metrics_medico.json").read_text())
FILES = GOLDEN["submission_files"]


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    path = tmp_path / "truth.csv"
    path.write_text(FILES["truth"])
    return path


@pytest.mark.parametrize("number", range(len(FILES["valid"])))
def test_valid_files_are_scored(number: int, truth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    submission, out = tmp_path / "sub.csv", tmp_path / "out"
    submission.write_text(FILES["valid"][number])
    unit = ("time_unit=ms",) if number == 1 else ()
    code = challenge("score", submission, f"truth={truth}", f"out={out}", *unit)
    assert code == 0, capsys.readouterr().err
    found = scores(out)
    assert found["profiles"]["biomedia2019"]["metrics"]["recall"]["value"] == pytest.approx(2 / 3)
    fps = found["fps"]["value"] if found["fps"] else None
    assert fps == (None if number == 0 else pytest.approx(3000 / 36.5))


@pytest.mark.parametrize("case", FILES["refused"], ids=lambda case: case["why"])
def test_refused_files_get_one_sentence_and_exit_2(
    case: dict[str, str], truth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = tmp_path / "sub.csv"
    submission.write_text(case["text"])
    assert challenge("score", submission, f"truth={truth}", f"out={tmp_path / 'out'}", "time_unit=ms") == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and message.count("\n") == 1 and "Traceback" not in message
    assert str(submission) in message
    wanted = {
        "duplicate": ("line 2", "a.jpg"),
        "missing": ("c.jpg", "missing=wrong"),
        "unknown label": ("line 1", "'polyps'"),
        "confidence 1.2": ("line 1", "1.2"),
        "confidence is no": ("line 1", "nan"),
        "time 0": ("line 1", "above 0"),
        "line 2 has 3": ("line 2", "3 columns", "line 1 has 4"),
        "one column": ("line 1", "separator=semicolon"),
        "d.jpg": ("line 4", "not in the truth"),
        "empty": ("empty",),
    }
    parts = next(parts for start, parts in wanted.items() if case["why"].startswith(start))
    assert all(part in message for part in parts), message
    assert not (tmp_path / "out").exists()


MORE_REFUSALS: list[tuple[str, str, str, str]] = [
    # what, truth, submission, part of the sentence
    ("truth twice", "a,x\nb,y\na.png,x\n", "a,x,1\nb,y,1\n", "there twice (line 1)"),
    ("one class", "a,x\nb,x\n", "a,x,1\nb,x,1\n", "one class only"),
    ("time without unit", "a,x\nb,y\n", "a,x,1,3\nb,y,1,3\n", "time_unit=ms"),
    ("two columns", "a,x\nb,y\n", "a,x\nb,y\n", "file,label,confidence"),
    ("misspelt column", "a,x\nb,y\n", "file,categroy,confidence\na,x,1\nb,y,1\n", "did you mean 'category'?"),
    ("column missing", "a,x\nb,y\n", "file,category\na,x\nb,y\n", "the column 'confidence' is missing"),
    ("header alone", "a,x\nb,y\n", "file,category,confidence\n", "holds a header and no line"),
    ("open quote", "a,x\nb,y\n", 'a,"x,1\nb,y,1\n', "line 1"),
    ("underscore", "a,x\nb,y\n", "a,x,0_1\nb,y,1\n", "no finite number"),
    ("group half filled", "file,label,group\na,x,1\nb,y,\n", "a,x,1\nb,y,1\n", "the group is empty"),
    ("folder twice", "p/a.jpg,x\nq/a.jpg,y\n", "p/a.jpg,x,1\nq/a.jpg,y,1\n", "match=path"),
]


@pytest.mark.parametrize("case", MORE_REFUSALS, ids=lambda case: case[0])
def test_more_refusals(case: tuple[str, str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, submission = tmp_path / "truth.csv", tmp_path / "sub.csv"
    truth.write_text(case[1])
    submission.write_text(case[2])
    assert challenge("score", submission, f"truth={truth}", f"out={tmp_path / 'out'}") == 2
    assert case[3] in capsys.readouterr().err


def test_bytes_that_are_no_utf8_name_their_line(
    truth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = tmp_path / "sub.csv"
    submission.write_bytes(b"a.jpg,polyps,0.9\nb.jpg,normal\xffcecum,0.5\nc.jpg,polyps,0.4\n")
    assert challenge("score", submission, f"truth={truth}", f"out={tmp_path / 'out'}") == 2
    assert "line 2: these bytes are not UTF-8" in capsys.readouterr().err


def test_paths_are_told_apart_when_asked(tmp_path: Path) -> None:
    truth, submission, out = tmp_path / "truth.csv", tmp_path / "sub.csv", tmp_path / "out"
    truth.write_text("p/a.jpg,x\nq/a.jpg,y\n")
    submission.write_text("/data/set/p/a.jpg,x,1\n/data/set/q/a.jpg,x,1\n")
    assert challenge("score", submission, f"truth={truth}", "match=path", f"out={out}") == 0
    assert scores(out)["confusion"] == [[1, 0], [1, 0]]


def test_missing_images_count_as_wrong_answers_when_asked(truth: Path, tmp_path: Path) -> None:
    submission, out = tmp_path / "sub.csv", tmp_path / "out"
    submission.write_text("a.jpg,polyps,0.91\nb.jpg,normal-cecum,0.55\n")
    assert challenge("score", submission, f"truth={truth}", "missing=wrong", f"out={out}") == 0
    found = scores(out)
    assert found["n"] == 3 and found["missing_counted_as_wrong"] == 1
    assert found["profiles"]["biomedia2019"]["metrics"]["recall"]["value"] == pytest.approx(2 / 3)
    assert found["profiles"]["medico2018"]["metrics"]["recall"]["value"] == pytest.approx(2 / 3)
    # Leaving a hard image out must not pay: R_K is that of an answer outside the classes.
    expected = matthews_corrcoef(["polyps", "cecum", "eso"], ["polyps", "cecum", "missing"])
    assert found["profiles"]["medico2018"]["metrics"]["mcc"]["value"] == pytest.approx(expected)


def team_satm(folder: Path, groups: bool = False) -> tuple[Path, Path]:
    """Truth and answers of 8,740 images with the published confusion matrix."""
    block = GOLDEN["medico2018_team_SatM"]
    names, matrix = block["classes"], np.array(block["confusion"])
    random = np.random.default_rng(0)
    pairs = [(t, p) for t in range(16) for p in range(16) for _ in range(matrix[t, p])]
    lines_t, lines_s = [], []
    for i, (t, p) in enumerate(pairs):
        lines_t.append(f"{i:05d}.jpg,{names[t]}" + (f",{i // 4}" if groups else ""))
        lines_s.append(f"{i:05d}.jpg,{names[p]},{random.uniform(0.2, 1):.4f},{random.uniform(5, 30):.2f}")
    truth, submission = folder / "truth.csv", folder / "medico_S@M_classification_2.csv"
    truth.write_text("\n".join(lines_t) + "\n")
    submission.write_text("\n".join(random.permutation(lines_s)) + "\n")
    return truth, submission


def test_the_published_row_of_team_satm(tmp_path: Path) -> None:
    truth, submission = team_satm(tmp_path, groups=True)
    out = tmp_path / "out"
    words = ("profile=medico2018", "time_unit=ms", f"out={out}", "bootstrap.replicates=200")
    assert challenge("score", submission, f"truth={truth}", *words) == 0
    found = scores(out)
    own = results(out)["submission"]
    assert (own["team"], own["task"], own["run"]) == ("S@M", "classification", "2")
    printed = GOLDEN["medico2018_team_SatM"]["printed_2018_row"]
    figures = found["profiles"]["medico2018"]["metrics"]
    for name in ("recall", "precision", "specificity", "accuracy", "f1", "mcc"):
        assert four_digits(figures[name]["value"]) == round(printed[name] * 10_000), name
        assert figures[name]["low"] < figures[name]["value"] < figures[name]["high"], name
    with (out / "summary.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert int(float(row["tp"]) * 100) == 51662 and row["n"] == "8740"
    with (out / "confusion.csv").open() as file:
        table = list(csv.reader(file))
    assert table[0][0] == "truth/prediction" and len(table) == 17
    by_name = {line[0]: dict(zip(table[0][1:], line[1:], strict=True)) for line in table[1:]}
    assert by_name["esophagitis"]["normal-z-line"] == "121" and by_name["normal-z-line"]["esophagitis"] == "48"
    recall = found["per_class"]["esophagitis"]
    assert recall["recall_interval"] == pytest.approx([0.7405434584793352, 0.8096122957029327])
    # Esophagitis taken for the Z-line is in the right region.
    assert found["levels"]["region"] > found["profiles"]["biomedia2019"]["metrics"]["recall"]["value"]
    assert "S@M" in (out / "index.html").read_text()


def test_intervals_over_groups_are_wider_than_over_images(tmp_path: Path) -> None:
    """Frames of one patient are not independent: with groups of equal fate the interval must be wider."""
    lines_t = [f"{i}.jpg,{'ab'[i % 2]},{i // 20}" for i in range(400)]
    lines_s = [f"{i}.jpg,{'ab'[(i % 2) ^ (i // 20 % 3 == 0)]},0.5" for i in range(400)]
    widths = {}
    for name, text in (("groups", lines_t), ("single", [line.rsplit(",", 1)[0] for line in lines_t])):
        (tmp_path / f"{name}.csv").write_text("\n".join(text))
        (tmp_path / "sub.csv").write_text("\n".join(lines_s))
        out = tmp_path / name
        assert challenge("score", tmp_path / "sub.csv", f"truth={tmp_path / f'{name}.csv'}", f"out={out}") == 0
        found = scores(out)["profiles"]["medico2018"]["metrics"]["mcc"]
        widths[name] = found["high"] - found["low"]
    assert widths["groups"] > 2 * widths["single"]


def test_times_that_nobody_believes_are_warned_about(
    truth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = tmp_path / "sub.csv"
    submission.write_text("a.jpg,polyps,0.91,0.02\nb.jpg,normal-cecum,0.55,0.02\nc.jpg,polyps,0.4,0.02\n")
    words = (f"truth={truth}", "time_unit=ms", f"out={tmp_path / 'out'}")
    assert challenge("score", submission, *words) == 0
    assert "50,000 images a second" in capsys.readouterr().out


def test_score_with_and_without_listed_images(truth: Path, tmp_path: Path) -> None:
    submission, leaks, out = tmp_path / "sub.csv", tmp_path / "leaks.txt", tmp_path / "out"
    submission.write_text(FILES["valid"][0])
    leaks.write_text("a.jpg\n")
    assert challenge("score", submission, f"truth={truth}", f"without={leaks}", f"out={out}") == 0
    without: dict[str, Any] = scores(out)["without_listed"]
    assert without["images"] == 2 and without["correct"] == 0.5


def test_the_command_line_itself_exits_with_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "panendofm.challenge", "score", str(tmp_path / "missing.csv"), "truth=none.csv"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and done.stderr.startswith("error: ") and "torch" not in done.stderr
