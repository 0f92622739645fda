"""The verb `score`: read the truth and one submission, compute every figure, write results and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from panendofm.challenge.files.finding_model import FindingsFile, Kind
from panendofm.challenge.files.findings import aligned, kind_of, read_findings
from panendofm.challenge.files.frames import classes_of, frame_set
from panendofm.challenge.files.names import Match, image_name, resolve
from panendofm.challenge.files.submissions import (
    Answers,
    Missing,
    TimeUnit,
    Truth,
    names_from_file,
    read_answers,
    read_truth,
)
from panendofm.challenge.files.text_table import nearest, read_utf8
from panendofm.challenge.score import page as pages
from panendofm.challenge.score.boxes import score_boxes
from panendofm.challenge.score.error_images import box_errors, label_errors
from panendofm.challenge.score.format_metric import shown
from panendofm.challenge.score.labels import confusion_of, score_labels
from panendofm.challenge.score.masks import score_masks
from panendofm.challenge.score.results import provenance, save_label_tables, save_results
from panendofm.challenge.timing import Timing, read_timing
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_text
from panendofm.scoring.classification.profiles import FIGURES, PROFILES, square_mcc
from panendofm.scoring.detection.average_precision import BOX_PROFILES
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.speed import BELIEVABLE_FPS

MASK_PROFILES = ("house", "endotect", "endocv2021")
PROFILE_NAMES: dict[str, tuple[str, ...]] = {
    "classification": tuple(PROFILES),
    "detection": tuple(BOX_PROFILES),
    "segmentation": MASK_PROFILES,
}
DEFAULT_PROFILE = {"classification": "medico2018", "detection": "coco", "segmentation": "house"}
# A figure that is asked for by name must fit the task.
FIGURE_NAMES: dict[str, tuple[str, ...]] = {
    "classification": (*FIGURES, "fps"),
    "detection": ("map", "map_50", "map_75", "score", "score_d", "froc", "pdr", "adr", "latency", "jitter", "alarms"),
    "segmentation": ("dice", "iou", "precision", "recall", "f2", "accuracy", "hausdorff", "hausdorff_95"),
}


@dataclass(frozen=True)
class ScoreOptions:
    truth: Path
    out: Path
    profile: str | None = None
    team: str | None = None
    task: str | None = None
    run: str | None = None
    classes: Sequence[str] = ()
    separator: str = ","
    time_unit: TimeUnit | None = None
    missing: Missing = "refuse"
    match: Match = "stem"
    images: Path | None = None
    without: Path | None = None
    timing: Path | None = None
    figure: str | None = None
    confidence: float = 0.5
    fps: float | None = None
    unseen: str | None = None
    mm_per_px: float | None = None
    training_images: int | None = None
    organizer: bool = False
    bootstrap: BootstrapConfig = field(default_factory=BootstrapConfig)


def score(submission: Path, options: ScoreOptions) -> dict[str, Any]:
    """Score a file and write the results; what kind of file it is its header says."""
    for path in (options.truth, submission):
        if not path.is_file():
            raise UserError(f"cannot read {path}: there is no such file; check the path.")
    kind = kind_of(options.truth, options.separator)
    own = kind_of(submission, options.separator)
    if kind != own:
        raise UserError(
            f"{submission}: it holds {own or 'classification'}, the truth {options.truth} holds "
            f"{kind or 'classification'}; compare like with like."
        )
    name = kind or "classification"
    profile = _profile(name, options)
    names = names_from_file(submission)
    given = {k: v for k in ("team", "task", "run") if (v := getattr(options, k)) is not None}
    about = {
        **names,
        **given,
        "profile": profile,
        "provenance": provenance(options.truth, submission),
        "bootstrap": vars(options.bootstrap),
        "training_images": options.training_images,
        "organizer": options.organizer,
    }
    if kind is None:
        return _score_labels(submission, options, about)
    return _score_findings(submission, options, about, kind, profile)


def _profile(kind: str, options: ScoreOptions) -> str:
    profile = options.profile or DEFAULT_PROFILE[kind]
    if profile not in PROFILE_NAMES[kind]:
        raise UserError(f"--profile {profile} is none of {kind}'s; there are: {', '.join(PROFILE_NAMES[kind])}.")
    if options.figure is not None and options.figure not in FIGURE_NAMES[kind]:
        raise UserError(f"--figure {options.figure} does not fit {kind}; these do: {', '.join(FIGURE_NAMES[kind])}.")
    return profile


def _score_labels(submission: Path, options: ScoreOptions, about: dict[str, Any]) -> dict[str, Any]:
    truth = read_truth(options.truth, options.separator, options.match, options.classes)
    answers = read_answers(submission, truth, options.separator, options.time_unit, options.missing)
    results = {**about, **score_labels(truth, answers, options.bootstrap), "warnings": []}
    if options.timing is not None:
        _measured(results, read_timing(options.timing))
    if options.without is not None:
        results["without_listed"] = _without(truth, answers, options.without)
    results["warnings"] = _label_warnings(results)
    out = make_directory(options.out)
    save_label_tables(out, results, truth, answers)
    errors = label_errors(truth, answers, options.images)
    write_text(out / "index.html", pages.label_page(results, errors))
    save_results(out, results)
    _say_labels(results, options)
    return results


def _measured(results: dict[str, Any], timing: Timing) -> None:
    """Times that we measured stand beside those that the submission reports."""
    results["measured"] = timing.to_dict()


def _label_warnings(results: dict[str, Any]) -> list[str]:
    warnings = []
    speed = results["speed"]
    if speed and not speed["believable"]:
        warnings.append(
            f"{speed['fps']['value']:,.0f} images a second is outside {BELIEVABLE_FPS[0]:g} to "
            f"{BELIEVABLE_FPS[1]:,.0f}: are the times in the unit that was named?"
        )
    if results["missing_counted_as_wrong"]:
        warnings.append(f"{results['missing_counted_as_wrong']} images have no answer and count as wrong.")
    measured = results.get("measured")
    if measured and measured["flagged"]:
        warnings.append(measured["flagged"])
    absent = [name for name, row in results["per_class"].items() if not row["evaluable"]]
    if absent:
        warnings.append(f"not evaluable, no test images: {', '.join(absent)}.")
    return warnings


def _without(truth: Truth, answers: Answers, listed: Path) -> dict[str, Any]:
    """The score without images that have a twin in training."""
    lines = [line.strip() for line in read_utf8(listed).splitlines() if line.strip()]
    names = {name: None for name, _ in truth.keys}
    left_out = set()
    for number, line in enumerate(lines, 1):
        name = resolve(image_name(line, truth.match), names, truth.match)
        if name is None:
            raise UserError(f"{listed}, line {number}: {line} is not in the truth {truth.path}; remove it.")
        left_out.add(name)
    keep = np.array([name not in left_out for name, _ in truth.keys])
    if not keep.any():
        raise UserError(f"{listed} lists every image of the truth; nothing is left to score.")
    confusion = confusion_of(truth, answers, keep[None].astype(np.float64))[0]
    return {
        "images": int(keep.sum()),
        "left_out": int((~keep).sum()),
        "right": float((answers.label == truth.label)[keep].mean()),
        "mcc": float(square_mcc(confusion)),
    }


def _say_labels(results: dict[str, Any], options: ScoreOptions) -> None:
    figures = results["profiles"][results["profile"]]["figures"]
    rows = [[name, shown(figures[name])] for name in FIGURES if options.figure in (None, name)]
    if results["speed"] and options.figure in (None, "fps"):
        rows.append(["images/s", shown(results["speed"]["fps"], 2)])
    groups = results["groups"]
    table(
        f"{results['team']}, run {results['run']}: {results['n']} images, profile {results['profile']}, "
        f"95% intervals over {groups['count']} {groups['kind']}s",
        ["figure", "value"],
        rows,
    )
    worst = sorted((r["recall"], n) for n, r in results["per_class"].items() if r["recall"] is not None)[:3]
    say(f"worst classes by recall: {', '.join(f'{n} {r:.3f}' for r, n in worst)}")
    without = results.get("without_listed")
    if without:
        say(f"without {without['left_out']} listed images: MCC {without['mcc']:.4f}, right {without['right']:.4f}")
    for warning in results["warnings"]:
        warn(warning)
    say(f"results: {options.out / 'index.html'}, results.json, summary.csv, classes.csv, confusion.csv")


def _score_findings(
    submission: Path, options: ScoreOptions, about: dict[str, Any], kind: Kind, profile: str
) -> dict[str, Any]:
    truth = read_findings(options.truth, "truth", kind, options.separator, options.match)
    prediction = read_findings(submission, "prediction", kind, options.separator, options.match)
    classes, frames = classes_of(truth, options.classes), frame_set(truth)
    answers = aligned(truth, prediction, options.match, classes)
    if options.unseen is not None and options.unseen not in frames.centers:
        raise UserError(
            f"--unseen {options.unseen}: the truth has no such center; {nearest(options.unseen, frames.centers)}"
        )
    if kind == "detection":
        found = score_boxes(
            frames, answers, classes, profile, options.bootstrap, options.confidence, options.fps, options.unseen
        )
    else:
        found = score_masks(
            truth,
            prediction,
            frames,
            answers,
            classes,
            profile,  # type: ignore[arg-type]  # one of MASK_PROFILES, checked above
            options.bootstrap,
            options.unseen,
            options.mm_per_px,
        )
    results = {**about, **found, "warnings": []}
    out = make_directory(options.out)
    errors = box_errors(frames, answers, classes, options.images, options.confidence) if kind == "detection" else []
    write_text(out / "index.html", pages.finding_page(results, errors))
    save_results(out, results)
    _say_findings(results, options, truth)
    return results


def _say_findings(results: dict[str, Any], options: ScoreOptions, truth: FindingsFile) -> None:
    rows: list[list[str]] = []
    if results["type"] == "detection":
        rows = [[name, shown(value)] for name, value in results["profiles"][results["profile"]]["figures"].items()]
    else:
        for name, row in results["per_class"].items():
            rows += [[f"{name}: {k}", shown(v)] for k, v in row["mean_over_images"].items()]
            rows.append([f"{name}: correct «nothing»", shown(row["correct_nothing"]["rate"])])
    groups = results["groups"]
    table(
        f"{results['team']}: {results['n']} frames of {truth.path.name}, profile {results['profile']}, "
        f"95% intervals over {groups['count']} {groups['kind']}s",
        ["figure", "value"],
        rows,
    )
    say(f"results: {options.out / 'index.html'}, results.json")
