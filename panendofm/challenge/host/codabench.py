"""The verb `bundle`: a truth → a competition for Codabench, checked by running its scoring program.

The truth stays hidden: it lies in the reference data of each phase, which participants never see.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from panendofm.challenge.config import BundleConfig, ScoreConfig
from panendofm.challenge.files.finding_model import TaskKind
from panendofm.challenge.files.findings import answer_columns, kind_of
from panendofm.challenge.host.packages import copy_packages, copy_sources, needed_distributions
from panendofm.challenge.host.scoring_program import SETTINGS, leaderboard, score_submission
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
from panendofm.records.documents import write_document
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
    rows: list[HiddenRow]
    start: str
    end: str | None
    submissions: int  # of a team

    @property
    def title(self) -> str:
        return self.name.capitalize()


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
    """The development phase, where there is one, ends when the final one begins."""
    inside = np.zeros(len(truth.rows), bool)
    phases = []
    if config.development_share:
        inside = development_rows(truth, config.development_share, config.seed)
        rows = write_part(truth, inside, folder / "reference_data_development")
        phases.append(_Phase("development", rows, config.start, config.development_end, config.submissions))
    rows = write_part(truth, ~inside, folder / "reference_data_final")
    start = config.development_end or config.start
    phases.append(_Phase("final", rows, start, config.end, config.final_submissions))
    settings = ScoreConfig(
        truth=TRUTH,
        profile=profile.name,
        classes=list(truth.classes),
        match=config.match,
        missing=config.missing,
        confidence=config.confidence,
        bootstrap=config.bootstrap,
    )
    for phase in phases:
        write_document(folder / f"reference_data_{phase.name}" / SETTINGS, settings)
    return phases


def _starting_kit(truth: HiddenTruth, profile: Profile, phases: list[_Phase], folder: Path) -> list[str]:
    """Names of the images, a submission that is valid, and what it must hold; returns the leaderboard's columns."""
    columns: list[str] = []
    for phase in phases:
        kit = folder / _STARTING_KIT
        names = [[row.file, row.key[1]] for row in phase.rows]
        write_text(kit / f"images_{phase.name}.csv", csv_text(("file", "frame"), names))
        sample = csv_text(answer_columns(profile.kind), _sample_rows(profile.kind, phase.rows, truth.classes))
        write_text(kit / phase.name / "sample_submission.csv", sample)
        with tempfile.TemporaryDirectory() as name:
            source = _as_platform(Path(name), folder, phase)
            try:
                columns = list(leaderboard(score_submission(source, Path(name) / "output")))
            except UserError as error:
                raise UserError(f"the phase {phase.title} can't be scored: {error}") from None
    return columns


def _sample_rows(kind: TaskKind, rows: Sequence[HiddenRow], classes: Sequence[str]) -> list[list[object]]:
    """Valid, and knows nothing: the first class by the alphabet for labels; else: looked at, nothing found."""
    if kind == "classification":
        return [[row.file, row.key[1], min(classes), 1 / len(classes)] for row in rows]
    empty = [""] * (len(answer_columns(kind)) - 2)
    return [[row.file, row.key[1], *empty] for row in rows]


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
        "pages": _PAGES,
        "image": config.docker_image or f"python:{sys.version_info.major}.{sys.version_info.minor}",
        "board": sorted(columns, key=lambda name: not name.startswith(profile.ranking[0])),
    }
    for page in (*_PAGES, "terms"):
        write_text(folder / f"{page}.md", render_text("panendofm.challenge", f"bundle_{page}.md", **shown))
    write_text(folder / _STARTING_KIT / "README.md", render_text("panendofm.challenge", "bundle_data.md", **shown))
    _write_logo(folder / "logo.png", config.title)
    write_text(folder / "competition.yaml", render_text("panendofm.challenge", "competition.yaml", **shown))


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
