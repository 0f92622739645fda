"""The leaderboard as one page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from runtime import pages
from runtime.images import decode_image
from vqa.bench.draw import draw_marks, encode_jpeg
from vqa.bench.items import Bench, Item, MarkedRegion
from vqa.bench.vocabulary import read_package_yaml
from vqa.score.charts import scatter
from vqa.score.lesion_tables import number, table_of
from vqa.score.lesions import Sheet, columns_of
from vqa.score.page import SCRIPT, STYLE
from vqa.score.people import MARKS

_EXTRA_STYLE = """
td.heat { text-align: center; min-width: 3.2rem; } .overlays { display: flex; flex-wrap: wrap; gap: 0.7rem; }
.overlays figure { width: 15rem; }
"""
_PARTS = {
    "human": "Pictures that people answered too",
    "full": "All pictures",
    "complete_cases": "Complete cases only, as in the paper",
}


def page_of(bench: Bench, results: dict[str, Any], sheets: Sequence[Sheet]) -> str:
    offers = "all lesions" if results["q3_options"] == "all" else "the lesions of the own site"
    body = (
        f"<h1>{pages.text(results['bench'])}: leaderboard</h1>"
        f'<p class="quiet">{results["full"]["pictures"]} pictures, {results["full"]["questions"]} questions; reviewed: '
        f"{results['reviewed']}. Q3 offers {offers}. Texts rated by {results['rated_by']}. Intervals: 95%, "
        f"{results['draws']} draws of whole groups of pictures, for groups of people of readers too. Unanswered "
        "questions count as wrong. Q1 F1 as published can't reach 1 (see the documentation).</p>"
    )
    for part, title in _PARTS.items():
        if part in results and results[part]["rows"]:
            body += pages.section(f"{title} ({results[part]['pictures']})", _main_table(results[part]))
    body += pages.section("Box conventions", _conventions(results))
    body += pages.section("By class", _heat_maps(results))
    body += pages.section("Where errors begin", _chains(results))
    body += pages.section("Quality against cost", _cost(results))
    body += pages.section("Agreement of raters", _agreement(results))
    body += pages.section("Boxes: worst, median and best", _overlays(bench, sheets))
    body += pages.section("Published figures, on other pictures", _published())
    return pages.page(f"{results['bench']}: leaderboard", body + f"<script>{SCRIPT}</script>", STYLE + _EXTRA_STYLE)


def _main_table(part: dict[str, Any]) -> str:
    groups = part.get("groups", [])
    legend = ", ".join(f"{mark} differs from {g['name']}" for mark, g in zip(MARKS, groups, strict=False))
    rule = " (sign flips over classes, Holm in each column, 0.05)."
    note = f'<p class="quiet">{pages.text(legend + rule)}</p>' if legend else ""
    return pages.table(*table_of({"groups": [], **part}), numbers=True) + note


def _conventions(results: dict[str, Any]) -> str:
    rows = []
    for row in results["full"]["rows"]:
        if "q2_by_convention" in row:
            means = row["q2_by_convention"]
            hint = f"replies look like {row['q2_looks_like']}" if row["q2_looks_like"] else ""
            figures = [*(f"{mean:.3f}" for mean in means.values()), number(row["q2_miou_best_match"])]
            rows.append([row["name"], *figures, f"{row['q2_boxes_per_reply']:.2f}", hint])
    head = ["contestant", "pixel", "unit", "permille", "permille, y first", "best of all boxes", "boxes/reply", ""]
    return pages.table(head, rows, numbers=True) if rows else ""


def _heat_maps(results: dict[str, Any]) -> str:
    part = results.get("human") or results["full"]
    parts = []
    for column in ("q1", "q2", "q3"):
        rows = [row for row in [*part["rows"], *part["groups"]] if column in row["by_class"]]
        names = sorted({name for row in rows for name in row["by_class"][column]})
        if not rows:
            continue
        head = "".join(f"<th>{pages.text(name)}</th>" for name in ["", *names])
        lines = []
        for row in rows:
            cells = "".join(_heat(row["by_class"][column].get(name)) for name in names)
            lines.append(f"<tr><td>{pages.text(row['name'])}</td>{cells}</tr>")
        title = {"q1": "Q1 site", "q2": "Q2 overlap", "q3": "Q3 diagnosis"}[column]
        parts.append(
            f'<h3>{title}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(lines)}</tbody></table></div>"
        )
    return "".join(parts)


def _heat(value: float | None) -> str:
    if value is None:
        return '<td class="heat">–</td>'
    return f'<td class="heat" style="background:hsl({120 * value:.0f} 60% 80%)">{value:.2f}</td>'


def _chains(results: dict[str, Any]) -> str:
    steps = ("q3_right", "q3_right_given_q1_right", "q3_right_given_q1_right_and_found")
    words = ("names_the_chosen_site", "names_the_chosen_lesion", "names_a_lesion_that_is_not_there")
    rows = []
    for row in results["full"]["rows"]:
        chain, text = row["chain"], row["consistency"]
        shares = [f"{number(chain[step])} ({n})" for step, n in zip(steps, chain["n"], strict=True)]
        rows.append([row["name"], *shares, *(number(text.get(word)) for word in words)])
    head = ["contestant", "diagnosis right", "given the site", "given site and box"]
    return pages.table([*head, "text names chosen site", "chosen lesion", "a lesion not there"], rows, numbers=True)


def _cost(results: dict[str, Any]) -> str:
    part = results.get("human") or results["full"]
    points = [
        (row["name"], row["accounting"]["cost_per_1000"], row["q3"]["mean"])
        for row in part["rows"]
        if row.get("accounting") and row["accounting"]["cost_per_1000"] is not None and "q3" in row
    ]
    levels = [(group["name"], group["q3"]["mean"]) for group in part["groups"] if "q3" in group]
    return scatter(points, "cost of 1000 requests", "Q3 macro accuracy", levels)


def _agreement(results: dict[str, Any]) -> str:
    keys = ("icc_2_1", "quadratic_weighted_kappa", "krippendorff_ordinal", "spearman", "exact_agreement", "within_one")
    rows = [
        [dimension, rater, str(own["n"]), *(number(own.get(key)) for key in (*keys, "bias"))]
        for dimension, entry in results["agreement"].items()
        for rater, own in entry.items()
    ]
    head = ["dimension", "who", "n", "ICC(2,1)", "κ", "α", "Spearman", "equal", "within one", "bias"]
    return pages.table(head, rows, numbers=True) if rows else ""


def _published() -> str:
    published = read_package_yaml("score/published", "gi_bench.yaml")
    parts = []
    for key, title in (("full_set_947", "full set, 947 pictures"), ("subset_60", "subset, 60 pictures")):
        rows = [[row["name"], *(number(value) for value in row["values"])] for row in published[key]]
        parts.append(f"<h3>{title}</h3>" + pages.table(["model", *published["columns"]], rows, numbers=True))
    return pages.details(f"{published['note']}: not comparable with the tables above", "".join(parts))


def _overlays(bench: Bench, sheets: Sequence[Sheet]) -> str:
    """Truth in green, the reply's first box in red."""
    items = columns_of(bench.items).lesions.get("q2", [])
    parts = []
    for sheet in sheets:
        scored = [(sheet.value("q2", item) or 0.0, item) for item in items]
        scored.sort(key=lambda pair: (pair[0], pair[1].id))
        if not scored:
            continue
        chosen = {"worst": scored[0], "median": scored[len(scored) // 2], "best": scored[-1]}
        figures = [_overlay(bench, item, sheet, f"{title}: {iou:.2f}") for title, (iou, item) in chosen.items()]
        parts.append(f'<h3>{pages.text(sheet.name)}</h3><div class="overlays">{"".join(figures)}</div>')
    return "".join(parts)


def _overlay(bench: Bench, item: Item, sheet: Sheet, caption: str) -> str:
    picture = decode_image(bench.picture(item), item.image)
    marks = [MarkedRegion(region.name, "green", region.box) for region in item.regions]
    boxes = sheet.q2[item.sha256].boxes
    if boxes:
        x1, y1, x2, y2 = (round(v) for v in boxes[0])
        marks.append(MarkedRegion("", "red", (x1, y1, x2, y2)))
    drawn = draw_marks(picture, marks)
    scale = min(1.0, 300 / max(drawn.shape[:2]))
    size = (max(1, round(drawn.shape[1] * scale)), max(1, round(drawn.shape[0] * scale)))
    small = np.asarray(cv2.resize(drawn, size, interpolation=cv2.INTER_AREA), np.uint8)
    note = f"{caption}, {item.entity}" + ("" if boxes else f" (reply: {sheet.q2[item.sha256].status})")
    shown = pages.image(encode_jpeg(small, 85), item.id, "jpeg")
    return f"<figure>{shown}<figcaption>{pages.text(note)}</figcaption></figure>"
