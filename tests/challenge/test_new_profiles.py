"""A challenge is one declaration: declared here, it is scored, shown on the page and ranked like the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from challenge_runs import answers, challenge, labels_truth, results, scores, write
from test_score_findings import detection_csv, mask_files

from panendofm.challenge import profiles
from panendofm.challenge.profile import BoxProfile, LabelProfile, MaskProfile, Profile, registered_profiles
from panendofm.challenge.published import PublishedRow, PublishedTable
from panendofm.scoring.classification.averages import all_class_rates
from panendofm.scoring.detection.average_precision import BoxRules
from panendofm.scoring.masks import EmptyRules

Declare = Callable[[Profile], Profile]


@pytest.fixture
def declare() -> Iterator[Declare]:
    known = registered_profiles()
    before = dict(known)

    def add(profile: Profile) -> Profile:
        known[profile.kind, profile.name] = profile
        return profile

    yield add
    known.clear()
    known.update(before)


def score_and_rank(folder: Path, submissions: dict[str, Path], truth: Path, profile: str) -> tuple[str, dict, str]:
    """The first submission's page, the ranking, and its page."""
    for team, file in submissions.items():
        words = (f"truth={truth}", f"profile={profile}", f"team={team}", "bootstrap.replicates=40")
        assert challenge("score", file, *words, f"out={folder / team}") == 0
    first = next(iter(submissions))
    assert challenge("rank", *(folder / team for team in submissions), f"out={folder / 'rank'}") == 0
    ranking = json.loads((folder / "rank" / "ranking.json").read_text())
    return (folder / first / "index.html").read_text(), ranking, (folder / "rank" / "index.html").read_text()


def test_labels(tmp_path: Path, declare: Declare) -> None:
    declare(
        LabelProfile(
            name="gastro2027",
            about="the worst class decides",
            metrics=lambda confusion: {"worst_recall": np.nanmin(all_class_rates(confusion)["recall"], axis=-1)},
            ranking=("worst_recall",),
            published=(
                PublishedTable(
                    name="gastro2027_classification",
                    year=2027,
                    task="classification",
                    images=300,
                    rows=[
                        PublishedRow("Winner", {"worst_recall": 0.99}, "a large network"),
                        PublishedRow("Last", {"worst_recall": 0.01}, misprints={"worst_recall": "probably .10"}),
                    ],
                    note="As printed.",
                ),
            ),
        )
    )
    truth = labels_truth(tmp_path / "truth.csv")
    submissions = {
        "weak": answers(tmp_path / "weak.csv", 0.6, 9.0, 1),
        "strong": answers(tmp_path / "strong.csv", 0.95, 9.0, 2),
    }
    page, ranking, rank_page = score_and_rank(tmp_path, submissions, truth, "gastro2027")
    recalls = [row["rates"]["recall"] for row in scores(tmp_path / "weak")["per_class"].values()]
    found = scores(tmp_path / "weak")["profiles"]["gastro2027"]["metrics"]["worst_recall"]
    assert found["value"] == min(recalls) and found["low"] < found["high"]
    assert "gastro2027 ← chosen" in page and "the worst class decides" in page
    # Its published rows stand on the page with ours between them, though nothing but the declaration names them.
    assert page.index("<td>Winner</td>") < page.index('<tr class="marked"><td>weak</td>') < page.index("<td>Last</td>")
    assert "0.0100†" in page and "probably .10" in page
    assert [(row["rank"], row["team"]) for row in ranking["rows"]] == [(1, "strong"), (2, "weak")]
    assert ranking["metrics"] == ["worst_recall"] and "worst_recall" in rank_page
    assert challenge("rank", tmp_path / "weak", "published=gastro2027_classification", f"out={tmp_path / 'r'}") == 0
    assert "<td>Winner</td>" in (tmp_path / "r" / "index.html").read_text()


def test_boxes(tmp_path: Path, declare: Declare) -> None:
    declare(
        BoxProfile(
            name="gastro2027",
            about="any touch counts",
            rules=BoxRules((0.1,), "all points", free_boxes=True, limit=None),
            metrics=lambda boxes: {"map_10": boxes.mean_ap(0.1), "iou": boxes.mean_iou()},
            ranking=("map_10", "iou"),
        )
    )
    truth, told = detection_csv(tmp_path)
    # Whoever leaves the surest boxes out finds fewer.
    lines = told.read_text().splitlines()
    fewer = [line if ",0.9" not in line else f"{line.split(',')[0]},0,polyp,0.01,0,0,1,1" for line in lines]
    submissions = {"whole": told, "fewer": write(tmp_path / "fewer.csv", *fewer)}
    page, ranking, _ = score_and_rank(tmp_path, submissions, truth, "gastro2027")
    found = scores(tmp_path / "whole")["profiles"]
    assert found["gastro2027"]["metrics"]["map_10"]["value"] >= found["coco"]["metrics"]["map_50"]["value"]
    assert "Profile gastro2027" in page and "any touch counts" in page and "map_10" in page
    assert [(row["rank"], row["team"]) for row in ranking["rows"]] == [(1, "whole"), (2, "fewer")]
    assert (ranking["task"], ranking["metrics"]) == ("detection", ["map_10", "iou"])


def test_masks(tmp_path: Path, declare: Declare) -> None:
    declare(
        MaskProfile(
            name="gastro2027",
            about="IoU, and a correct «nothing» is half right",
            empties=EmptyRules(correct_nothing=0.5),
            score=lambda means: means["iou"],
        )
    )
    truth, told = mask_files(tmp_path)
    nothing = [line.split(",")[0] + ",0,,," for line in told.read_text().splitlines()[1:]]
    empty = write(tmp_path / "empty.csv", "file,frame,category,mask,polygon", *nothing)
    page, ranking, rank_page = score_and_rank(tmp_path, {"drawn": told, "empty": empty}, truth, "gastro2027")
    rows = scores(tmp_path / "empty")["per_class"]["polyp"]
    # Of seven images two have no finding: these are half right, the others are wrong.
    assert rows["ranking"]["gastro2027"]["value"] == pytest.approx(2 * 0.5 / 7)
    assert results(tmp_path / "empty")["submission"]["profile"] == "gastro2027"
    assert "a correct «nothing» is half right" in page
    assert [(row["rank"], row["team"]) for row in ranking["rows"]] == [(1, "drawn"), (2, "empty")]
    assert "<td>drawn</td>" in rank_page and ranking["task"] == "segmentation"


def test_a_new_file_is_a_new_challenge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody keeps a list of the files in `profiles/`."""
    write(
        tmp_path / "more" / "gastro2028.py",
        "from panendofm.challenge.profile import MaskProfile",
        "from panendofm.scoring.masks import EmptyRules",
        "PROFILES = (MaskProfile(name='gastro2028', about='F2', empties=EmptyRules(), score=lambda m: m['f2']),)",
    )
    monkeypatch.setattr(profiles, "__path__", [*profiles.__path__, str(tmp_path / "more")])
    registered_profiles.cache_clear()
    truth, told = mask_files(tmp_path)
    words = (f"truth={truth}", "profile=gastro2028", f"out={tmp_path / 'a'}", "bootstrap.replicates=0")
    assert challenge("score", told, *words) == 0
    found = scores(tmp_path / "a")
    f2 = found["per_class"]["polyp"]["mean_over_images"]["f2"]["value"]
    assert found["profiles"]["gastro2028"]["metrics"]["score"]["value"] == f2
    monkeypatch.undo()
    registered_profiles.cache_clear()


def test_other_profiles_and_kinds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, file = labels_truth(tmp_path / "labels.csv"), answers(tmp_path / "a.csv", 0.9, 9.0, 1)
    assert challenge("score", file, f"truth={truth}", "profile=coco") == 2
    assert "profile=coco is none of classification's" in capsys.readouterr().err
    boxes_truth, told = detection_csv(tmp_path)
    assert challenge("score", file, f"truth={truth}", f"out={tmp_path / 'a'}", "bootstrap.replicates=0") == 0
    assert challenge("score", told, f"truth={boxes_truth}", f"out={tmp_path / 'b'}", "bootstrap.replicates=0") == 0
    assert challenge("rank", tmp_path / "a", tmp_path / "b") == 2
    assert "score all by one profile" in capsys.readouterr().err
    assert challenge("rank", tmp_path / "b", "task=efficiency") == 2
    assert "task=efficiency ranks classification" in capsys.readouterr().err
    assert challenge("rank", tmp_path / "b", "published=medico2018_classification") == 2
    assert "that table has no map" in capsys.readouterr().err
    assert challenge("rank", tmp_path / "b", "published=medico2018_clasification") == 2
    assert "did you mean 'medico2018_classification'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"format": 2', '"format": 1'),
        lambda text: text.replace('"type": "classification"', '"type": "poetry"'),
        lambda text: text.replace('"mcc_multiclass": ', '"mcc_multiclass": "x", "old": '),
        lambda text: text.replace('"profile": "medico2018"', '"profile": "medico2081"'),
    ],
    ids=["torn", "other", "format", "type", "value", "profile"],
)
def test_damaged_results_answer_in_one_sentence(
    damage: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth, file = labels_truth(tmp_path / "truth.csv"), answers(tmp_path / "a.csv", 0.9, 9.0, 1)
    assert challenge("score", file, f"truth={truth}", f"out={tmp_path / 'a'}", "bootstrap.replicates=0") == 0
    path = tmp_path / "a" / "results.json"
    whole = path.read_text()
    assert damage(whole) != whole
    path.write_text(damage(whole))
    capsys.readouterr()
    for verb in ("rank", "record"):
        assert challenge(verb, tmp_path / "a", *([f"out={tmp_path / 'r'}"] if verb == "record" else [])) == 2
        message = capsys.readouterr().err
        assert str(path) in message and message.count("\n") == 1 and "Traceback" not in message


def test_a_damaged_answers_file_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = labels_truth(tmp_path / "truth.csv")
    for seed in (1, 2):
        file = answers(tmp_path / f"{seed}.csv", 0.9, 9.0, seed)
        assert challenge("score", file, f"truth={truth}", f"out={tmp_path / str(seed)}", "bootstrap.replicates=5") == 0
    path = tmp_path / "2" / "answers.csv"
    path.write_text(path.read_text().replace("\n3,0,1,", "\n3,0,one,"))
    assert challenge("rank", tmp_path / "1", tmp_path / "2") == 2
    assert f"{path}, line 5: the group 'one'" in capsys.readouterr().err


def test_damaged_reports_answer_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, file = labels_truth(tmp_path / "truth.csv"), answers(tmp_path / "a.csv", 0.9, 9.0, 1)
    assert challenge("score", file, f"truth={truth}", f"out={tmp_path / 'a'}", "bootstrap.replicates=0") == 0
    broken = write(tmp_path / "broken.json", '{"findings": 3}')
    for word in (f"data_check={broken}", f"gold={broken}"):
        assert challenge("record", tmp_path / "a", word, f"out={tmp_path / 'r'}") == 2
        assert f"cannot read {broken}" in capsys.readouterr().err
    assert challenge("score", file, f"truth={truth}", f"timing={broken}", f"out={tmp_path / 'b'}") == 2
    assert "a timing that 'challenge time' wrote" in capsys.readouterr().err


def test_text_on_the_page_is_escaped(tmp_path: Path) -> None:
    truth = write(tmp_path / "truth.csv", "file,label", *(f"{i}.png,{'<b>a</b>' if i % 2 else 'c'}" for i in range(20)))
    told = write(tmp_path / "told.csv", *(f"{i}.png,<b>a</b>,0.5" for i in range(20)))
    words = ("team=<script>alert(1)</script>", f"out={tmp_path / 'a'}", "bootstrap.replicates=5")
    assert challenge("score", told, f"truth={truth}", *words) == 0
    assert challenge("rank", tmp_path / "a", f"out={tmp_path / 'r'}") == 0
    for page in (tmp_path / "a" / "index.html", tmp_path / "r" / "index.html"):
        assert "<script>alert" not in page.read_text() and "&lt;script&gt;alert" in page.read_text()
    assert "<b>a</b>" not in (tmp_path / "a" / "index.html").read_text()
