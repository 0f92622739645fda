"""The verb `score`: read the truth and one submission, compute every metric, write results and a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.files.finding_model import Kind, TaskKind
from panendofm.challenge.files.findings import kind_of
from panendofm.challenge.files.frames import FindingPair, read_pair
from panendofm.challenge.files.names import image_name, resolve
from panendofm.challenge.files.submissions import Answers, Truth, names_from_file, read_answers, read_truth
from panendofm.challenge.files.text_table import SEPARATORS, read_utf8
from panendofm.challenge.profile import BoxProfile, LabelProfile, MaskProfile, PointProfile, Profile, find_profile
from panendofm.challenge.score.boxes import score_boxes
from panendofm.challenge.score.error_images import box_case, box_errors, label_case, label_errors, mask_case
from panendofm.challenge.score.labels import score_labels, score_subset
from panendofm.challenge.score.masks import score_masks
from panendofm.challenge.score.page import score_page
from panendofm.challenge.score.points import score_points
from panendofm.challenge.score.results import (
    LabelScores,
    MaskScores,
    Results,
    Scores,
    Submission,
    SubsetScores,
    write_results,
)
from panendofm.challenge.score.subsets import Case
from panendofm.challenge.score.tables import label_tables, subgroup_csv, summary_table
from panendofm.challenge.shown import shown
from panendofm.challenge.timing import read_timing
from panendofm.reports import PageImage
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, sha256_of, write_bytes, write_text
from panendofm.runtime.names import hint
from panendofm.scoring.statistics.speed import BELIEVABLE_FPS

DrawCase = Callable[[Path, Case], bytes | None]  # from the folder of images
_CASES = "cases"  # the folder of their thumbnails


@dataclass(frozen=True)
class _Scored:
    """What is made of a file of one kind."""

    profile: Profile
    scores: Scores
    errors: list[PageImage]
    draw: DrawCase
    tables: dict[str, str] = field(default_factory=dict)  # CSV files by name


def score(submission: Path, config: ScoreConfig) -> Results:
    """Score a file and write the results; what kind of file it is its header says."""
    truth = Path(config.truth)
    for path in (truth, submission):
        if not path.is_file():
            raise UserError(f"cannot read {path}: there is no such file; check the path.")
    separator = _separator(config.separator)
    kind = kind_of(truth, separator)
    own_kind = kind_of(submission, separator)
    if (kind, own_kind) not in _SCORERS:
        raise UserError(f"{submission}: it holds {own_kind}, the truth {truth} holds {kind}; compare like with like.")
    scored = _SCORERS[kind, own_kind](submission, config, separator)
    scored, thumbnails = _with_thumbnails(scored, _images(config))
    results = Results(_about(submission, config, scored.profile), scored.scores, _warnings(scored.scores))
    rows = _printed_rows(results, config.metric)
    tables = dict(scored.tables)
    if isinstance(scored.scores, LabelScores):
        tables["summary.csv"] = summary_table(results, scored.scores)
    if scored.scores.subgroups:
        tables["subgroups.csv"] = subgroup_csv(scored.scores)
    out = make_directory(Path(config.out))
    for name, text in tables.items():
        write_text(out / name, text)
    for name, thumbnail in thumbnails.items():
        write_bytes(make_directory(out / _CASES) / name, thumbnail)
    write_text(out / "index.html", score_page(results, scored.profile, scored.errors, thumbnails))
    write_results(out, results)
    _say(results, rows, [str(out / "index.html"), "results.json", *tables])
    return results


def _separator(name: str) -> str:
    """By its name, or the sign itself."""
    if name in SEPARATORS.values():
        return name
    if name not in SEPARATORS:
        raise UserError(f"separator={name}: write one of {', '.join(SEPARATORS)}.")
    return SEPARATORS[name]


def _about(submission: Path, config: ScoreConfig, profile: Profile) -> Submission:
    named = names_from_file(submission)
    return Submission(
        team=config.team if config.team is not None else named["team"],
        task=config.task if config.task is not None else named["task"],
        run=config.run if config.run is not None else named["run"],
        profile=profile.name,
        truth=Path(config.truth).name,
        truth_sha256=sha256_of(config.truth),
        file=submission.name,
        file_sha256=sha256_of(submission),
        bootstrap=config.bootstrap,
        training_images=config.training_images,
        organizer=config.organizer,
    )


def _score_labels(submission: Path, config: ScoreConfig, separator: str) -> _Scored:
    profile = find_profile(LabelProfile, config.profile)
    truth = read_truth(Path(config.truth), separator, config.match, config.classes or profile.classes)
    answers = read_answers(submission, truth, separator, config.time_unit, config.missing)
    scores = score_labels(truth, answers, config)
    if config.timing is not None:
        scores = replace(scores, measured=read_timing(Path(config.timing)))
    if config.without is not None:
        scores = replace(scores, without_listed=_without(truth, answers, Path(config.without)))
    errors = label_errors(truth, answers, _images(config))
    return _Scored(profile, scores, errors, label_case, label_tables(scores, truth, answers))


def _without(truth: Truth, answers: Answers, listed: Path) -> SubsetScores:
    """The score without images that have a near-duplicate in training."""
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
    return score_subset(truth, answers, keep)


def _read_pair(
    submission: Path,
    config: ScoreConfig,
    separator: str,
    kind: Kind,
    profile: Profile,
    predicted: Kind | None = None,
) -> FindingPair:
    classes = config.classes or profile.classes
    pair = read_pair(Path(config.truth), submission, kind, separator, config.match, classes, predicted)
    unseen = config.unseen_center
    if unseen is not None and unseen not in pair.frames.centers:
        raise UserError(f"unseen_center={unseen}: the truth has no such center; {hint(unseen, pair.frames.centers)}")
    return pair


def _score_boxes(submission: Path, config: ScoreConfig, separator: str) -> _Scored:
    profile = find_profile(BoxProfile, config.profile)
    pair = _read_pair(submission, config, separator, "detection", profile)
    scores = score_boxes(pair, profile, config)
    errors = box_errors(pair, _images(config), config.confidence)
    return _Scored(profile, scores, errors, lambda images, case: box_case(pair, images, config.confidence, case))


def _score_masks(submission: Path, config: ScoreConfig, separator: str) -> _Scored:
    profile = find_profile(MaskProfile, config.profile)
    pair = _read_pair(submission, config, separator, "segmentation", profile)
    scores = score_masks(pair, profile, config)
    return _Scored(profile, scores, [], lambda images, case: mask_case(pair, images, case))


def _score_points(submission: Path, config: ScoreConfig, separator: str, predicted: Kind = "localization") -> _Scored:
    profile = find_profile(PointProfile, config.profile)
    pair = _read_pair(submission, config, separator, "segmentation", profile, predicted)
    scores = score_points(pair, profile, config)
    return _Scored(profile, scores, [], lambda images, case: mask_case(pair, images, case))


# What the truth holds and what the submission holds.
_SCORERS: dict[tuple[TaskKind, TaskKind], Callable[[Path, ScoreConfig, str], _Scored]] = {
    ("classification", "classification"): _score_labels,
    ("detection", "detection"): _score_boxes,
    ("segmentation", "segmentation"): _score_masks,
    ("segmentation", "localization"): _score_points,
    ("segmentation", "detection"): partial(_score_points, predicted="detection"),
}


def _images(config: ScoreConfig) -> Path | None:
    return Path(config.images) if config.images is not None else None


def _with_thumbnails(scored: _Scored, images: Path | None) -> tuple[_Scored, dict[str, bytes]]:
    """The best and worst cases with thumbnails, by the names of their files; none without images."""
    if images is None:
        return scored, {}
    names: dict[tuple[str, int], str] = {}
    thumbnails: dict[str, bytes] = {}

    def with_thumbnail(case: Case) -> Case:
        key = case.file, case.frame
        if key not in names:
            content = scored.draw(images, case)
            names[key] = "" if content is None else f"{len(names) + 1:03d}.jpg"
            if content is not None:
                thumbnails[names[key]] = content
        return replace(case, image=f"{_CASES}/{names[key]}" if names[key] else None)

    sides = (
        [replace(subset, cases=[with_thumbnail(case) for case in subset.cases]) for subset in side]
        for side in (scored.scores.does_well, scored.scores.does_badly)
    )
    well, badly = sides
    return replace(scored, scores=replace(scored.scores, does_well=well, does_badly=badly)), thumbnails


def _warnings(scores: Scores) -> list[str]:
    if not isinstance(scores, LabelScores):
        return []
    warnings = []
    if scores.speed and not scores.speed.believable:
        warnings.append(
            f"{scores.speed.fps:,.0f} images a second is outside {BELIEVABLE_FPS[0]:g} to {BELIEVABLE_FPS[1]:,.0f}: "
            "are the times in the unit that was named?"
        )
    if scores.missing_counted_as_wrong:
        warnings.append(f"{scores.missing_counted_as_wrong} images have no answer and count as wrong.")
    if scores.measured and scores.measured.flagged:
        warnings.append(scores.measured.flagged)
    absent = [name for name, row in scores.per_class.items() if not row.images]
    if absent:
        warnings.append(f"not evaluable, no test images: {', '.join(absent)}.")
    return warnings


def _printed_rows(results: Results, wanted: str | None) -> list[list[str]]:
    """Metrics of the chosen profile for the terminal, or one of them."""
    scores = results.scores
    rows = [(name, name, shown(value)) for name, value in results.metrics.items()]
    if isinstance(scores, LabelScores) and scores.fps:
        rows.append(("fps", "images/s", shown(scores.fps, 2)))
    if isinstance(scores, MaskScores):
        for name, row in scores.per_class.items():
            rows += [(metric, f"{name}: {metric}", shown(value)) for metric, value in row.mean_over_images.items()]
            rows.append(("correct_nothing", f"{name}: correct «nothing»", shown(row.correct_nothing)))
    if wanted is not None and wanted not in [metric for metric, _, _ in rows]:
        names = dict.fromkeys(metric for metric, _, _ in rows)
        raise UserError(f"metric={wanted} does not fit {scores.type}; these do: {', '.join(names)}.")
    return [[label, text] for metric, label, text in rows if wanted in (None, metric)]


def _say(results: Results, rows: list[list[str]], files: list[str]) -> None:
    own = results.submission
    scores = results.scores
    units = "images" if isinstance(scores, LabelScores) else "frames"
    intervals = f"{own.bootstrap.confidence:.0%} intervals over {scores.groups} {scores.group_kind}s"
    title = f"{own.team}, run {own.run}: {scores.n} {units} of {own.truth}, profile {own.profile}, {intervals}"
    table(title, ["metric", "value"], rows)
    if isinstance(scores, LabelScores):
        recalls = {name: row.rates["recall"] for name, row in scores.per_class.items()}
        worst = sorted((recall, name) for name, recall in recalls.items() if recall is not None)[:3]
        say(f"worst classes by recall: {', '.join(f'{name} {recall:.3f}' for recall, name in worst)}")
        rest = scores.without_listed
        if rest:
            say(f"without {scores.n - rest.images} listed images: MCC {rest.mcc:.4f}, correct {rest.correct:.4f}")
    for warning in results.warnings:
        warn(warning)
    say(f"results: {', '.join(files)}")
