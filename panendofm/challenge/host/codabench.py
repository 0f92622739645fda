"""The verb `bundle`: a truth → a competition for Codabench, checked by running its scoring program.

The truth stays hidden: it lies in the reference data of each phase, which participants never see.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from panendofm.challenge.config import BundleConfig
from panendofm.challenge.files.findings import kind_of
from panendofm.challenge.host.packages import copy_packages, copy_sources, needed_distributions
from panendofm.challenge.host.sample import answer_columns, sample_rows
from panendofm.challenge.host.scoring_program import ScoringSettings, leaderboard, score_submission, write_settings
from panendofm.challenge.host.split_truth import (
    TRUTH,
    HiddenRow,
    HiddenTruth,
    development_rows,
    read_hidden_truth,
    write_part,
)
from panendofm.challenge.profile import (
    BoxProfile,
    LabelProfile,
    MaskProfile,
    PointProfile,
    Profile,
    find_profile,
    registered_profiles,
)
from panendofm.reports import render_text
from panendofm.runtime.console import say
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file, make_directory, write_text

_PROGRAM = "scoring_program"
_STARTING_KIT = "starting_kit"
_PAGES = ("overview", "evaluation", "data")
_ENTRY = '''"""Run by the platform: INPUT OUTPUT. The scorer and its packages lie beside this file."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "packages")]
sys.dont_write_bytecode = True

from panendofm.challenge.host.scoring_program import run  # noqa: E402

sys.exit(run(sys.argv[1:]))
'''


@dataclass(frozen=True)
class _Phase:
    """`name` is also that of its folder of reference data."""

    name: str
    title: str
    rows: list[HiddenRow]
    start: str
    end: str | None
    per_day: int
    at_all: int


def main(arguments: argparse.Namespace, config: BundleConfig) -> None:
    bundle(Path(arguments.truth), config)


def bundle(path: Path, config: BundleConfig) -> Path:
    profile = _profile(path, config)
    truth = read_hidden_truth(path, config.match, config.classes or profile.classes)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        phases = _write_phases(truth, profile, config, folder)
        copy_sources(folder / _PROGRAM)
        write_text(folder / _PROGRAM / "score.py", _ENTRY)
        command = "python3 /app/program/score.py /app/input /app/output"
        write_text(folder / _PROGRAM / "metadata.yaml", f"command: {command}\n")
        versions = {found.metadata["Name"]: found.version for found in needed_distributions()}
        if config.packages == "vendored":
            copy_packages(folder / _PROGRAM / "packages")
        requirements = "".join(f"{package}=={number}\n" for package, number in sorted(versions.items()))
        write_text(folder / _PROGRAM / "requirements.txt", requirements)
        columns = _starting_kit(truth, profile, phases, folder)
        _write_competition(truth, profile, phases, columns, config, folder)
        _check(phases[-1], folder)  # all phases have the same program
        out = Path(config.out)
        make_directory(out.parent)
        _write_zip(folder, out)
    images = ", ".join(f"{phase.title.lower()} {len(phase.rows)} images" for phase in phases)
    say(f"{out}: {out.stat().st_size / 1e6:.1f} MB; {images}; its scoring program ran on the sample submissions")
    return out


def _profile(path: Path, config: BundleConfig) -> Profile:
    """By its name alone where only one kind has it, else by what the truth holds."""
    if not path.is_file():
        raise UserError(f"cannot read {path}: there is no such file; check the path.")
    kind = kind_of(path)
    named = [profile for profile in registered_profiles().values() if profile.name == config.profile]
    if config.profile is not None and kind == "segmentation" and [p.kind for p in named] == ["localization"]:
        return find_profile(PointProfile, config.profile)
    kinds = {"classification": LabelProfile, "detection": BoxProfile, "segmentation": MaskProfile}
    if kind not in kinds:
        raise UserError(f"{path}: it holds points; a truth has labels, boxes or masks.")
    return find_profile(kinds[kind], config.profile)


def _write_phases(truth: HiddenTruth, profile: Profile, config: BundleConfig, folder: Path) -> list[_Phase]:
    everything = np.ones(len(truth.rows), bool)
    parts: list[tuple[str, str, NDArray[np.bool_], str | None, str | None, int]]
    parts = [("final", "Final", everything, config.start, config.end, config.final_submissions)]
    if config.development_share:
        inside = development_rows(truth, config.development_share, config.seed)
        parts = [
            ("development", "Development", inside, config.start, config.development_end, config.submissions),
            ("final", "Final", ~inside, config.development_end, config.end, config.final_submissions),
        ]
    phases = []
    for name, title, inside, start, end, at_all in parts:
        reference = folder / f"reference_data_{name}"
        rows = write_part(truth, inside, reference)
        settings = ScoringSettings(
            truth=TRUTH,
            profile=profile.name,
            classes=list(truth.classes),
            match=config.match,
            missing=config.missing,
            confidence=config.confidence,
            bootstrap=config.bootstrap,
        )
        write_settings(reference, settings)
        phases.append(_Phase(name, title, rows, str(start), end, config.submissions_per_day, at_all))
    return phases


def _starting_kit(truth: HiddenTruth, profile: Profile, phases: list[_Phase], folder: Path) -> list[str]:
    """Names of the images, a submission that is valid, and what it must hold; returns the leaderboard's columns."""
    columns: list[str] = []
    for phase in phases:
        kit = folder / _STARTING_KIT
        names = [[row.file, row.key[1]] for row in phase.rows]
        write_text(kit / f"images_{phase.name}.csv", csv_text(("file", "frame"), names))
        sample = csv_text(answer_columns(profile.kind), sample_rows(profile.kind, phase.rows, truth.classes))
        write_text(kit / phase.name / "sample_submission.csv", sample)
        with tempfile.TemporaryDirectory() as name:
            source = _as_platform(Path(name), folder, phase)
            try:
                columns = list(leaderboard(score_submission(source, Path(name) / "output")))
            except UserError as error:
                raise UserError(f"the phase {phase.title} can't be scored: {error}") from None
    return columns


def _as_platform(where: Path, folder: Path, phase: _Phase) -> Path:
    """input/ref and input/res as a platform mounts them, with the sample as the submission."""
    source = make_directory(where / "input")
    (source / "ref").symlink_to((folder / f"reference_data_{phase.name}").resolve())
    (source / "res").symlink_to((folder / _STARTING_KIT / phase.name).resolve())
    return source


def _check(phase: _Phase, folder: Path) -> None:
    """Run the program as the platform does, in a process of its own that sees nothing of this one."""
    with tempfile.TemporaryDirectory() as name:
        source = _as_platform(Path(name), folder, phase)
        program = folder / _PROGRAM / "score.py"
        words = [sys.executable, "-I", str(program), str(source), str(Path(name) / "output")]
        done = subprocess.run(words, capture_output=True, text=True, cwd=name)
        if done.returncode or not (Path(name) / "output" / "scores.json").is_file():
            raise RuntimeError(f"the scoring program of the bundle fails on its own sample: {done.stderr.strip()}")


def _write_competition(
    truth: HiddenTruth, profile: Profile, phases: list[_Phase], columns: list[str], config: BundleConfig, folder: Path
) -> None:
    shown = {
        "config": config,
        "profile": profile,
        "truth": truth,
        "phases": phases,
        "columns": answer_columns(profile.kind),
        "metrics": [name for name in columns if not name.endswith(("_low", "_high"))],
    }
    for page in (*_PAGES, "terms"):
        write_text(folder / f"{page}.md", render_text("panendofm.challenge", f"bundle_{page}.md", **shown))
    write_text(folder / _STARTING_KIT / "README.md", render_text("panendofm.challenge", "bundle_data.md", **shown))
    _write_logo(folder / "logo.png", config.title)
    competition = _competition(profile, phases, columns, config)
    write_text(folder / "competition.yaml", yaml.safe_dump(competition, sort_keys=False, allow_unicode=True))


def _competition(profile: Profile, phases: list[_Phase], columns: list[str], config: BundleConfig) -> dict[str, object]:
    """competition.yaml, version 2."""
    image = config.docker_image or f"python:{sys.version_info.major}.{sys.version_info.minor}"
    ordered = sorted(columns, key=lambda name: (not name.startswith(profile.ranking[0]), columns.index(name)))
    return {
        "version": 2,
        "title": config.title,
        "description": config.description,
        "image": "logo.png",
        "registration_auto_approve": False,
        "docker_image": image,
        "terms": "terms.md",
        "pages": [{"title": page.capitalize(), "file": f"{page}.md"} for page in _PAGES],
        "tasks": [
            {
                "index": number,
                "name": f"{config.title}, {phase.title.lower()}",
                "description": f"{len(phase.rows)} images",
                "is_public": False,
                "reference_data": f"reference_data_{phase.name}",
                "scoring_program": _PROGRAM,
            }
            for number, phase in enumerate(phases)
        ],
        "phases": [
            {
                "index": number,
                "name": phase.title,
                "description": f"{len(phase.rows)} images; the truth is hidden",
                "start": phase.start,
                **({"end": phase.end} if phase.end else {}),
                "max_submissions_per_day": phase.per_day,
                "max_submissions": phase.at_all,
                "execution_time_limit": config.time_limit_seconds,
                "starting_kit": _STARTING_KIT,
                "tasks": [number],
            }
            for number, phase in enumerate(phases)
        ],
        "leaderboards": [
            {
                "title": "Results",
                "key": "main",
                "submission_rule": "Add_And_Delete",
                "columns": [
                    {"title": name, "key": name, "index": number, "sorting": "desc", "precision": 4, "hidden": False}
                    for number, name in enumerate(ordered)
                ],
            }
        ],
    }


def _write_logo(path: Path, title: str) -> None:
    """A plain square with the first letters: platforms ask for one."""
    image = Image.new("RGB", (256, 256), "#1f4e79")
    letters = "".join(word[0] for word in title.split()[:2]).upper()
    ImageDraw.Draw(image).text((128, 128), letters, "white", anchor="mm", font_size=110)
    image.save(path)


def _write_zip(folder: Path, out: Path) -> None:
    """Fast rather than small: most of it is machine code."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with atomic_file(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder).as_posix())
