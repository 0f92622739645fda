"""`challenge rank` and `challenge time`: order, thresholds, refusals, paired tests, real programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from challenge_runs import answers, challenge, labels_truth, results
from PIL import Image

from panendofm.challenge.profile import registered_profiles
from panendofm.challenge.profiles.medico import CLINICAL_ROWS
from panendofm.scoring.statistics.ranking import by_quality_in_real_time, by_speed_above_threshold, pareto_front

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "metrics_medico.json").read_text())


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four systems on one truth; `good` has two runs, `fast` is below the threshold."""
    folder = tmp_path_factory.mktemp("scored")
    truth = labels_truth(folder / "truth.csv")
    systems = {"good_1": (0.9, 40.0, 1), "good_2": (0.97, 50.0, 2), "middle_1": (0.9, 10.0, 3), "fast_1": (0.6, 1.0, 4)}
    for name, (right, time_ms, seed) in systems.items():
        team, run = name.split("_")
        file = answers(folder / f"{name}.csv", right, time_ms, seed)
        words = (f"team={team}", f"run={run}", "profile=biomedia2019", "bootstrap.replicates=300")
        task = ("task=efficiency",) if team == "middle" else ()
        assert challenge("score", file, f"truth={truth}", f"out={folder / name}", *words, *task) == 0
    return folder


def ranking(folder: Path, out: Path, *words: object) -> dict[str, Any]:
    folders = [folder / name for name in ("good_1", "good_2", "middle_1", "fast_1")]
    assert challenge("rank", *folders, f"out={out}", *words) == 0
    found: dict[str, Any] = json.loads((out / "ranking.json").read_text())
    return found


def test_the_best_run_of_each_team_counts(scored: Path, tmp_path: Path) -> None:
    found = ranking(scored, tmp_path)
    assert [(r["rank"], r["team"], r["run"]) for r in found["rows"]] == [
        (1, "good", "2"),
        (2, "middle", "1"),
        (3, "fast", "1"),
    ]
    tests = {(t["a"], t["b"]): t for t in found["paired_tests"]}
    assert len(tests) == 6
    clear = tests["good #2", "fast #1"]
    assert clear["p_corrected"] < 0.05 and clear["low"] > 0 and clear["difference"] > 0.3
    assert clear["p_corrected"] >= clear["p"]
    alike = tests["good #1", "middle #1 (efficiency)"]
    assert alike["low"] < 0 < alike["high"]


@pytest.mark.parametrize(
    ("reading", "expected"), [("A", ["middle", "good"]), ("B", ["middle", "fast"])], ids=["fastest", "best"]
)
def test_efficiency_by_both_readings(scored: Path, tmp_path: Path, reading: str, expected: list[str]) -> None:
    found = ranking(scored, tmp_path, "task=efficiency", f"reading={reading}")
    assert [r["team"] for r in found["rows"] if r["rank"]] == expected
    assert [r["note"] for r in found["rows"] if not r["rank"]] != []
    assert found["pareto_front"] == ["good", "middle", "fast"]


def test_the_page_shows_published_rows_marked_and_apart(scored: Path, tmp_path: Path) -> None:
    ranking(scored, tmp_path, "task=efficiency", "published=medico2017_efficiency")
    page = (tmp_path / "index.html").read_text()
    assert '<tr class="marked"><td>good</td>' in page and "<tr><td>SIMULA</td>" in page
    assert "0.6946†" in page and "HKBU, mcc: .6880 from the counts" in page
    assert "<svg" in page and "Pareto front of ours" in page


def test_clinical_applicability_needs_both_tasks(
    scored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert challenge("rank", scored / "good_1", scored / "middle_1", "task=clinical") == 2
    assert "team good has no results of the task 'efficiency'" in capsys.readouterr().err
    truth = scored / "truth.csv"
    for task, right in (("classification", 0.97), ("efficiency", 0.9)):
        file = answers(tmp_path / f"{task}.csv", right, 15.0, 2)
        words = ("team=x", f"task={task}", "profile=biomedia2019", "bootstrap.replicates=50")
        assert challenge("score", file, f"truth={truth}", f"out={tmp_path / task}", *words) == 0
    folders = (tmp_path / "classification", tmp_path / "efficiency")
    assert challenge("rank", *folders, "task=clinical", f"out={tmp_path / 'rank'}") == 0
    (row,) = json.loads((tmp_path / "rank" / "ranking.json").read_text())["clinical_rows"]
    difference = abs(row["mcc"] - row["mcc_second_task"])
    assert row["speed_rank"] == 1 and row["robustness_rank"] == min(10, 1 + int(100 * difference))


def test_more_than_five_runs_and_other_truths_are_refused(
    scored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = scored / "truth.csv"
    folders = []
    for run in range(6):
        file = answers(tmp_path / f"{run}.csv", 0.8, 10.0, run)
        folders.append(tmp_path / f"run{run}")
        words = ("team=eager", f"run={run}", "bootstrap.replicates=0")
        assert challenge("score", file, f"truth={truth}", f"out={folders[-1]}", *words) == 0
    assert challenge("rank", *folders) == 2
    assert "team eager has 6 runs" in capsys.readouterr().err
    other = labels_truth(tmp_path / "other.csv", n=300, classes="dcba")
    assert (
        challenge("score", tmp_path / "0.csv", f"truth={other}", f"out={tmp_path / 'o'}", "bootstrap.replicates=0") == 0
    )
    assert challenge("rank", folders[0], tmp_path / "o") == 2
    assert "different truths" in capsys.readouterr().err
    assert challenge("rank", folders[0], "task=hardware") == 2
    assert "challenge time" in capsys.readouterr().err


def test_published_tables_are_the_golden_ones_and_rank_as_they_say() -> None:
    tables = {table.name: table for profile in registered_profiles().values() for table in profile.published}
    expected = GOLDEN["published_tables"]["tables"]
    assert set(tables) == set(expected)
    for name, rows in expected.items():
        ours = {row.team: row.metrics for row in tables[name].rows}
        for row in rows:
            for key in ("recall", "precision", "specificity", "accuracy", "f1", "mcc", "tp", "fps"):
                assert ours[row["team"]].get(key) == row.get(key), (name, row["team"], key)
    for name, lists in GOLDEN["efficiency_ranking"].items():
        entries = [row.entry("mcc") for row in tables[name].rows]
        assert [e.team for e in by_speed_above_threshold(entries)] == lists["threshold_then_speed"]
        assert [e.team for e in by_quality_in_real_time(entries)] == lists["real_time_45_then_mcc"]
        assert [e.team for e in pareto_front(entries)] == lists["pareto_front_best_mcc_first"]
    marked = {(n, row.team) for n, t in tables.items() for row in t.rows if row.misprints}
    assert ("biomedia2019_classification", "uniaugsburg") in marked and len(marked) == 6
    organizers = {row.team for t in tables.values() for row in t.rows if row.organizer}
    assert organizers == {"SIMULA"}
    assert len(CLINICAL_ROWS) == len(GOLDEN["clinical_applicability"]["rows"])


PROGRAM = """
import pathlib, sys, time
time.sleep(0.05)
for p in sorted(pathlib.Path(sys.argv[1]).glob("*.png")):
    time.sleep(0.03)
    print(f"{p.name},a,0.5,{sys.argv[2]}")
"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(8):
        Image.new("RGB", (8, 8)).save(folder / f"{i}.png")
    return folder


@pytest.mark.parametrize(("reported", "flagged"), [("30", False), ("2", True)])
def test_a_program_is_timed_end_to_end(
    images: Path, tmp_path: Path, reported: str, flagged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    out = tmp_path / "sub.csv"
    command = f"{sys.executable} {program} {{images}} {reported}"
    words = (f"images={images}", f"out={out}", "time_unit=ms", "repeats=2")
    assert challenge("time", command, *words) == 0
    found = json.loads((tmp_path / "sub.timing.json").read_text())
    # What the program does once is left out.
    assert found["images"] == 8
    assert found["ms_per_image"] == pytest.approx(1000 * (found["seconds_all"] - found["seconds_one"]) / 7)
    assert found["reported_ms"] == float(reported)
    apart = abs(found["ms_per_image"] - float(reported)) > 0.2 * found["ms_per_image"]
    assert ("more than 20% apart" in capsys.readouterr().out) == apart
    assert apart or not flagged
    assert len(out.read_text().splitlines()) == 8


def test_a_command_may_end_in_a_yaml_file(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"{sys.executable} -c 'raise SystemExit(3)' {{images}} settings.yaml"
    assert challenge("time", command, f"images={images}", f"out={tmp_path / 's.csv'}") == 2
    assert "exit code 3" in capsys.readouterr().err


def test_programs_that_fail_are_named(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = {
        "nothing-of-that-name {images}": "there is no such program",
        f"{sys.executable} -c 'raise SystemExit(3)' {{images}}": "exit code 3",
        f"{sys.executable} -c 'pass' {{images}}": "printed nothing",
        f"{sys.executable} -c 'pass'": "has no {images}",
    }
    for command, part in cases.items():
        assert challenge("time", command, f"images={images}", f"out={tmp_path / 's.csv'}") == 2
        assert part in capsys.readouterr().err
    assert not (tmp_path / "s.csv").exists()


def test_measured_times_reach_the_hardware_ranking(tmp_path: Path) -> None:
    truth = labels_truth(tmp_path / "truth.csv")
    file = answers(tmp_path / "a.csv", 0.95, 1.0, 0)
    timing = {"images": 300, "seconds_one": 1.0, "seconds_all": 7.0, "ms_per_image": 20.0, "reported_ms": 1.0}
    (tmp_path / "t.json").write_text(json.dumps({**timing, "device": "a processor"}))
    words = (f"timing={tmp_path / 't.json'}", "bootstrap.replicates=0", "profile=biomedia2019")
    assert challenge("score", file, f"truth={truth}", f"out={tmp_path / 'a'}", *words) == 0
    found = results(tmp_path / "a")
    assert found["scores"]["measured"]["ms_per_image"] == 20 and any("20% apart" in w for w in found["warnings"])
    assert challenge("rank", tmp_path / "a", "task=hardware", f"out={tmp_path / 'r'}") == 0
    assert json.loads((tmp_path / "r" / "ranking.json").read_text())["rows"][0]["fps"] == 50
