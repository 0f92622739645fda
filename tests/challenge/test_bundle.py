"""A bundle for Codabench: hidden truth, phases, starting kit, and a scoring program that runs where nothing is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from challenge_runs import answers, challenge, results, write
from test_points_and_artifacts import POINTS, polyp_video
from test_score_findings import detection_csv, mask_files

from panendofm.challenge.host.scoring_program import run

DAYS = ("start=2026-03-01", "development_end=2026-04-01", "development_share=0.3", "end=2026-05-01")


def unpacked(path: Path) -> Path:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(path.parent / "bundle")
    return path.parent / "bundle"


def mounted(where: Path, bundle: Path, phase: str, submission: Path) -> Path:
    """input/ref and input/res, as the platform's worker has them."""
    shutil.copytree(bundle / f"reference_data_{phase}", where / "input" / "ref")
    (where / "input" / "res").mkdir()
    shutil.copy(submission, where / "input" / "res")
    return where / "input"


def run_program(bundle: Path, source: Path, python: str, *before: str) -> subprocess.CompletedProcess[str]:
    """With an empty environment, far from the sources."""
    words = [*before, python, "-I", str(bundle / "scoring_program" / "score.py"), str(source), str(source / "out")]
    return subprocess.run(words, capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"]})


def only_rows(path: Path, out: Path, files: set[str]) -> Path:
    head, *lines = path.read_text().splitlines()
    return write(out, head, *(line for line in lines if line.split(",")[0] in files))


def scores_of(source: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((source / "out" / "scores.json").read_text())
    return found


def test_a_bundle_of_labels_with_two_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (f"{i}.png,{'abcd'[i % 4]},{i % 100}" for i in range(300))  # a group's images lie far apart
    truth = write(tmp_path / "truth.csv", "file,label,group", *lines)
    told = answers(tmp_path / "told.csv", 0.8, 5.0, 2)
    words = ("title=Polyp classes", "packages=image", "bootstrap.replicates=50", f"out={tmp_path / 'b.zip'}")
    assert challenge("bundle", truth, *words, *DAYS) == 0
    bundle = unpacked(tmp_path / "b.zip")
    document: dict[str, Any] = yaml.safe_load((bundle / "competition.yaml").read_text())
    assert document["version"] == 2 and document["docker_image"].startswith("python:3.")
    named = [document["image"], document["terms"], *(page["file"] for page in document["pages"])]
    named += [task[part] for task in document["tasks"] for part in ("reference_data", "scoring_program")]
    named += [phase["starting_kit"] for phase in document["phases"]]
    assert all((bundle / name).exists() and name for name in named)
    assert all((bundle / page["file"]).read_text().strip() for page in document["pages"])
    assert [phase["tasks"] for phase in document["phases"]] == [[0], [1]]
    assert [phase["start"] for phase in document["phases"]] == ["2026-03-01", "2026-04-01"]
    assert document["phases"][0]["end"] == "2026-04-01"
    columns = document["leaderboards"][0]["columns"]
    assert columns[0]["key"] == "mcc" and columns[0]["sorting"] == "desc"
    # Every image is in one phase, every group too, and no truth lies outside the reference data.
    parts = {}
    for phase in ("development", "final"):
        lines = (bundle / f"reference_data_{phase}" / "truth.csv").read_text().splitlines()
        assert lines[0] == "file,label,group"
        parts[phase] = [line.split(",") for line in lines[1:]]
    assert len(parts["development"]) == 90 and len(parts["final"]) == 210
    assert not {row[2] for row in parts["development"]} & {row[2] for row in parts["final"]}
    public = [p for p in bundle.rglob("*") if p.is_file() and "reference_data" not in str(p.relative_to(bundle))]
    assert not any("label,group" in p.read_text(errors="ignore") for p in public if p.suffix == ".csv")
    # The program gives what `challenge score` gives on the same images.
    files = {row[0] for row in parts["final"]}
    own = only_rows(told, tmp_path / "own" / "told.csv", files)
    own_truth = only_rows(truth, tmp_path / "own" / "truth.csv", files)
    out = tmp_path / "own" / "out"
    assert challenge("score", own, f"truth={own_truth}", f"out={out}", "bootstrap.replicates=50") == 0
    source = mounted(tmp_path / "run", bundle, "final", own)
    done = run_program(bundle, source, sys.executable)
    assert done.returncode == 0, done.stderr
    expected = results(out)["scores"]["profiles"]["medico2018"]["metrics"]
    found = scores_of(source)
    for name, estimate in expected.items():
        assert found[name] == pytest.approx(estimate["value"], abs=1e-12)
        assert found[f"{name}_low"] == pytest.approx(estimate["low"], abs=1e-12)
    assert {column["key"] for column in columns} == set(found)
    # A faulty submission is one sentence for its author, and no score.
    faulty = write(tmp_path / "faulty.csv", *own.read_text().splitlines()[:-1])
    source = mounted(tmp_path / "faulty", bundle, "final", faulty)
    capsys.readouterr()
    assert run([str(source), str(source / "out")]) == 2
    message = capsys.readouterr().err
    assert "answer every image" in message and message.count("\n") == 1
    assert not (source / "out" / "scores.json").exists()
    two = mounted(tmp_path / "two", bundle, "final", own)
    shutil.copy(own, two / "res" / "again.csv")
    assert run([str(two), str(two / "out")]) == 2
    assert "holds one file of answers" in capsys.readouterr().err
    assert challenge("bundle", truth, *words, "start=2026-03-01", "development_share=0.3") == 2
    assert "both development_share and development_end" in capsys.readouterr().err
    assert challenge("bundle", truth, *words, "start=March") == 2
    assert "YYYY-MM-DD" in capsys.readouterr().err


SLOW = pytest.mark.slow


@pytest.mark.parametrize("kind", ["masks", pytest.param("boxes", marks=SLOW), pytest.param("points", marks=SLOW)])
def test_other_kinds(kind: str, tmp_path: Path) -> None:
    truth, told = detection_csv(tmp_path) if kind == "boxes" else mask_files(tmp_path)
    more: tuple[str, ...] = ()
    if kind == "points":
        truth, more = polyp_video(tmp_path), ("profile=apdcv",)
        told = write(tmp_path / "points.csv", "file,frame,category,confidence,x,y", *POINTS)
    words = ("title=T", "packages=image", "bootstrap.replicates=20", "start=2026-03-01", f"out={tmp_path / 'b.zip'}")
    assert challenge("bundle", truth, *words, *more) == 0
    bundle = unpacked(tmp_path / "b.zip")
    source = mounted(tmp_path / "run", bundle, "final", told)
    for folder in tmp_path.glob("prediction"):
        shutil.copytree(folder, source / "res" / folder.name)
    done = run_program(bundle, source, sys.executable)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert challenge("score", told, f"truth={truth}", f"out={out}", "bootstrap.replicates=20") == 0
    document = results(out)
    expected = document["scores"]["profiles"][document["submission"]["profile"]]["metrics"]
    assert {n: v["value"] for n, v in expected.items()} == {
        name: pytest.approx(value, abs=1e-12)
        for name, value in scores_of(source).items()
        if not name.endswith(("_low", "_high"))
    }


@pytest.mark.slow
def test_the_program_runs_in_an_empty_environment_without_a_network(tmp_path: Path) -> None:
    """A new virtual environment without a single package, in a network namespace of its own."""
    truth, told = mask_files(tmp_path)
    words = ("title=T", "bootstrap.replicates=20", "start=2026-03-01", f"out={tmp_path / 'b.zip'}")
    assert challenge("bundle", truth, *words) == 0
    bundle = unpacked(tmp_path / "b.zip")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    python = str(tmp_path / "empty" / "bin" / "python")
    assert subprocess.run([python, "-I", "-c", "import numpy"], capture_output=True).returncode != 0
    source = mounted(tmp_path / "run", bundle, "final", told)
    shutil.copytree(tmp_path / "prediction", source / "res" / "prediction")
    cut_off = ("unshare", "-rn") if subprocess.run(["unshare", "-rn", "true"]).returncode == 0 else ()
    done = run_program(bundle, source, python, *cut_off)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert challenge("score", told, f"truth={truth}", f"out={out}", "bootstrap.replicates=20") == 0
    expected = results(out)["scores"]["profiles"]["house"]["metrics"]["score"]["value"]
    assert scores_of(source)["score"] == pytest.approx(expected, abs=1e-12)
