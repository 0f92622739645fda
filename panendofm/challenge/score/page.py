"""index.html of one scored submission: what its template shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from panendofm.challenge.beside import BesidePublished, OurRow, beside_published
from panendofm.challenge.profile import Profile
from panendofm.challenge.score.page_subgroups import subgroup_parts
from panendofm.challenge.score.results import (
    BoxClass,
    BoxScores,
    LabelClass,
    LabelScores,
    MaskScores,
    PointScores,
    Results,
)
from panendofm.challenge.shown import items_of, plain_text, shown
from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.charts import ForestRow, confusion_chart, forest_chart
from panendofm.reports.numbers import number
from panendofm.scoring.statistics.estimates import Estimate
from panendofm.scoring.statistics.speed import REAL_TIME_FPS

_FRAME_RATES = ("recall", "specificity", "precision", "npv")


def score_page(results: Results, profile: Profile, errors: list[PageImage], thumbnails: Mapping[str, bytes]) -> str:
    """The profile names the template; what is shown depends on the kind of the scores alone."""
    scores = results.scores
    parts: dict[str, object]
    if isinstance(scores, LabelScores):
        parts = _label_parts(results, scores)
    elif isinstance(scores, BoxScores):
        parts = _box_parts(scores)
    elif isinstance(scores, MaskScores):
        parts = _mask_parts(scores)
    else:
        parts = _point_parts(scores)
    own = results.submission
    files = [["truth", own.truth, own.truth_sha256], ["submission", own.file, own.file_sha256]]
    return render_page(
        "panendofm.challenge",
        profile.template,
        title=f"{own.team}: {own.profile}",
        results=results,
        scores=scores,
        plain_text=plain_text,
        confidence=f"{own.bootstrap.confidence:.0%}",
        chart=_metric_chart(f"Profile {profile.name}", results.metrics),
        published=_published(results, profile),
        errors=errors,
        **subgroup_parts(scores, thumbnails),
        files=Table(["what", "name", "SHA-256"], files, numeric=False),
        **parts,
    )


def _metric_chart(title: str, metrics: Mapping[str, Estimate]) -> Markup:
    rows = [ForestRow(name, m.value, m.low, m.high) for name, m in metrics.items() if m.value is not None]
    return forest_chart(title, rows, digits=4)


def _published(results: Results, profile: Profile) -> BesidePublished | None:
    """Beside the profile's table of this kind, in the columns that both have."""
    table = next((table for table in profile.published if table.task == profile.kind), None)
    if table is None:
        return None
    columns = tuple(name for name in results.metrics if any(name in row.metrics for row in table.rows))
    own = OurRow(results.submission.team, "this submission", results.metrics)
    return beside_published(table, columns, profile.ranking[0], [own])


def _label_parts(results: Results, scores: LabelScores) -> dict[str, object]:
    house = scores.house
    names = list(dict.fromkeys(name for profile in scores.profiles.values() for name in profile.metrics))
    rows = []
    for name, profile in scores.profiles.items():
        chosen = " ← chosen" if name == results.submission.profile else ""
        rows.append([name + chosen, *(shown(profile.metrics.get(metric)) for metric in names)])
    ours = {**house.macro, "mcc": Estimate(house.mcc_multiclass)}
    rows.append(["our macro means", *(shown(ours.get(metric)) for metric in names)])
    by_recall = sorted(scores.per_class.items(), key=lambda item: item[1].rates["recall"] or 0.0)
    recalls = [
        ForestRow.of(name, recall, row.recall_interval)
        for name, row in by_recall
        if (recall := row.rates["recall"]) is not None
    ]
    return {
        "errors_title": "Surest wrong answers",
        "metrics": Table(["profile", *names], rows),
        "confusion": confusion_chart(scores.classes, scores.answer_columns, scores.confusion),
        "classes": Table(
            ["class, worst first", "images", "recall", "95% (Wilson)", "precision", "specificity", "F1", "MCC"],
            [_class_row(name, row) for name, row in by_recall],
        ),
        "class_chart": forest_chart("Recall of each class, worst first", recalls, x_label="recall", digits=4),
        "confidence_and_speed": Table(["metric", "value"], _confidence_rows(scores)),
        "centers": plain_table("center", scores.centers),
    }


def _class_row(name: str, row: LabelClass) -> list[str]:
    recall = number(row.rates["recall"], 4) if row.images else "not evaluable"
    interval = row.recall_interval
    limits = f"{interval[0]:.4f}–{interval[1]:.4f}" if interval else ""
    others = [number(row.rates[rate], 4) for rate in ("precision", "specificity", "f1", "mcc")]
    return [name, str(row.images), recall, limits, *others]


def _confidence_rows(scores: LabelScores) -> list[list[str]]:
    found = scores.confidence
    rows = [["expected calibration error", number(found.expected_calibration_error, 4)]]
    for share, risk in found.risk_at_coverage.items():
        rows.append([f"wrong among the surest {float(share):.0%}", shown(risk)])
    if scores.levels:
        rows.append(["right region", number(scores.levels.region, 4)])
        rows.append(["right category", number(scores.levels.category, 4)])
    speed = scores.speed
    if speed:
        times = f"{speed.mean_ms:.2f}, {speed.median_ms:.2f}, {speed.p95_ms:.2f}"
        real_time = [f"{limit}: {'yes' if speed.fps >= limit else 'no'}" for limit in REAL_TIME_FPS]
        rows.append(["images per second (self-reported)", shown(scores.fps, 2)])
        rows.append(["milliseconds: mean, median, p95", times])
        rows.append(["real time at", ", ".join(real_time)])
    return rows


def _box_parts(scores: BoxScores) -> dict[str, object]:
    patients = scores.patients.metrics if scores.patients else {}
    rows = [[name, "not evaluable (no histology)" if v is None else shown(v)] for name, v in patients.items()]
    return {
        "errors_title": "Worst misses and false alarms",
        "profiles": [(name, found, _metric_table(found.metrics)) for name, found in scores.profiles.items()],
        "classes": [(name, *_class_tables(row)) for name, row in scores.per_class.items()],
        "patients": Table(["metric", "value"], rows) if rows else None,
        "centers": plain_table("what", scores.centers),
        "by_size": plain_table("size", scores.by_size),
        "videos": plain_table("what", scores.videos),
    }


def _metric_table(metrics: Mapping[str, Estimate]) -> Table:
    return Table(["metric", "value"], [[name, shown(value)] for name, value in metrics.items()])


def _class_tables(row: BoxClass) -> tuple[Table, Table]:
    readings = [
        [reading, str(found.tp), str(found.fp), str(found.fn), str(found.tn)]
        + [shown(found.metrics[rate]) for rate in _FRAME_RATES]
        for reading, found in (
            ("frames presence", row.frames_presence),
            ("frames presence and place", row.frames_presence_and_place),
        )
    ]
    columns = ["frames", "TP", "FP", "FN", "TN", "sensitivity", "specificity", "PPV", "NPV"]
    froc = [[f"{alarms} false boxes a frame", shown(value)] for alarms, value in row.froc.items()]
    return Table(columns, readings), Table(["FROC", "sensitivity"], froc)


def _mask_parts(scores: MaskScores) -> dict[str, object]:
    classes = []
    for name, row in scores.per_class.items():
        everywhere = row.mean_over_images
        with_finding = row.mean_over_images_with_a_finding
        means = [[metric, shown(everywhere[metric]), shown(with_finding[metric])] for metric in everywhere]
        columns = ["metric", "all images", "images with a finding"]
        classes.append((name, row, Table(columns, means), plain_table("size", row.by_size)))
    rankings = [[name, p.about, shown(p.metrics["score"])] for name, p in scores.profiles.items()]
    return {
        "errors_title": "",
        "classes": classes,
        "rankings": Table(["challenge", "its score", "value"], rankings, numeric=False),
        "ranking_chart": _metric_chart(
            "Scores of challenges", {n: p.metrics["score"] for n, p in scores.profiles.items()}
        ),
        "centers": plain_table("what", scores.centers),
        "mean_iou": plain_table("what", scores.mean_iou_of_classes),
    }


def _point_parts(scores: PointScores) -> dict[str, object]:
    counted = [
        [name, what, str(found.tp), str(found.fp), str(found.fn)]
        + [shown(found.metrics[rate]) for rate in ("recall", "precision", "f1", "f2")]
        for name, row in scores.per_class.items()
        for what, found in (("findings and points", row.points), ("frames", row.frames_presence))
    ]
    columns = ["class", "counts of", "found", "false", "missed", "recall", "precision", "F1", "F2"]
    return {
        "errors_title": "",
        "profiles": [(name, found, _metric_table(found.metrics)) for name, found in scores.profiles.items()],
        "classes": Table(columns, counted),
        "centers": plain_table("what", scores.centers),
        "latency": plain_table("what", scores.latency),
    }


def plain_table(what: str, content: Any) -> Table | None:
    """A small result as rows of two columns; None when there is nothing."""
    rows = [[name, plain_text(value)] for name, value in items_of(content).items()]
    return Table([what, "value"], rows, numeric=False) if rows else None
