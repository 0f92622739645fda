"""The leaderboard as one page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panendofm.reports import pages
from panendofm.vqa.bench.items import Bench
from panendofm.vqa.score.charts import scatter
from panendofm.vqa.score.gi_bench.examples import STYLE as EXAMPLE_STYLE
from panendofm.vqa.score.gi_bench.examples import examples, overlays
from panendofm.vqa.score.gi_bench.people import MARKS
from panendofm.vqa.score.gi_bench.sheets import Sheet
from panendofm.vqa.score.gi_bench.tables import (
    Table,
    difference_table,
    main_table,
    number,
    ranked,
    reply_table,
    variant_tables,
)
from panendofm.vqa.score.page import SCRIPT, STYLE

_EXTRA_STYLE = """
td.heat { text-align: center; min-width: 3.2rem; }
table.numbers td { white-space: pre; line-height: 1.3; }
table.numbers th { white-space: normal; vertical-align: bottom; }
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
        f"{results['reviewed']}. Q3 offers {offers}. Texts rated by {pages.text(_raters(results))}. Intervals: 95%, "
        f"{results['draws']} draws of whole groups of pictures, for groups of people of readers too. Unanswered "
        f"questions count as wrong. {_ceiling(results)}</p>"
    )
    best = results.get("human") or results["full"]
    for part, title in _PARTS.items():
        if part in results and results[part]["rows"]:
            body += pages.section(f"{title} ({results[part]['pictures']})", _main_table(results[part]))
    blind, repeats = variant_tables(best)
    body += pages.section("Models less readers", _differences(best))
    body += pages.section("Without the picture", _if_rows(blind))
    body += pages.section("Repeated runs: mean ± standard deviation", _if_rows(repeats))
    body += pages.section("Replies, time and cost", pages.table(*reply_table(best), numbers=True))
    body += pages.section("Boxes", _boxes(results))
    body += pages.section("By class", _heat_maps(best))
    body += pages.section("Where errors begin", _chains(results))
    body += pages.section("Quality against cost", _cost(best))
    body += pages.section("Agreement of raters", _agreement(results))
    body += pages.section("Boxes: worst, median and best", overlays(bench, sheets))
    body += pages.section("Pictures and replies", examples(bench, sheets))
    body += pages.section("Published figures, on other pictures", _published(results["published"]))
    style = STYLE + EXAMPLE_STYLE + _EXTRA_STYLE
    return pages.page(f"{results['bench']}: leaderboard", body + f"<script>{SCRIPT}</script>", style)


def _raters(results: dict[str, Any]) -> str:
    own = results["judges_in_the_table"]
    return str(results["rated_by"]) + (f" ({', '.join(own)} is a contestant itself)" if own else "")


def _ceiling(results: dict[str, Any]) -> str:
    ceilings = [row["q1_f1_published_ceiling"] for row in results["full"]["rows"] if "q1_f1_published_ceiling" in row]
    return f"Q1 F1 as published can't be more than {ceilings[0]:.3f} on all pictures." if ceilings else ""


def _main_table(part: dict[str, Any]) -> str:
    legend = ", ".join(f"{mark} differs from {g['name']}" for mark, g in zip(MARKS, part["groups"], strict=False))
    rule = " (sign flips over classes, Holm over all models and groups of a column, 0.05)."
    alone = [group["name"] for group in part["groups"] if group["readers"] == 1]
    rule += f" One reader alone: {', '.join(alone)}; intervals over pictures only." if alone else ""
    note = f'<p class="quiet">{pages.text(legend + rule)}</p>' if legend else ""
    return pages.table(*main_table(part), numbers=True) + note


def _if_rows(content: Table) -> str:
    return pages.table(*content, numbers=True) if content[1] else ""


def _differences(part: dict[str, Any]) -> str:
    if not part["groups"]:
        return ""
    note = (
        "Difference (95% interval over pictures and readers, the same draws for both sides), p of sign flips over "
        "classes after Holm; * below 0.05."
    )
    return _if_rows(difference_table(part)) + f'<p class="quiet">{note}</p>'


def _boxes(results: dict[str, Any]) -> str:
    """Under each convention, and against what else is known of the truth."""
    rows = []
    known = [row for row in results["full"]["rows"] if "q2_by_convention" in row]
    outlines = any("q2_miou_outline" in row for row in known)
    annotators = sorted({name for row in known for name in row.get("q2_miou_by_annotator", {})})
    for row in known:
        hint = f"replies look like {row['q2_looks_like']}" if row["q2_looks_like"] else ""
        figures = [*row["q2_by_convention"].values(), row["q2_miou_best_match"], row["q2_miou_union"]]
        figures += [row.get("q2_miou_outline")] if outlines else []
        figures += [row.get("q2_miou_by_annotator", {}).get(name) for name in annotators]
        rows.append([row["name"], *(number(f) for f in figures), f"{row['q2_boxes_per_reply']:.2f}", hint])
    head = ["contestant", "pixel", "unit", "permille", "permille, y first", "best of all boxes", "all boxes merged"]
    head += ["outline"] if outlines else []
    head += [f"against {name}" for name in annotators]
    notes = []
    if outlines:
        notes.append(f"Outline: no box gets more than about {known[0]['q2_miou_outline_ceiling']:.3f}.")
    if annotators:
        notes.append(f"The annotators' own boxes overlap by {known[0]['q2_annotators_iou']:.3f}.")
    content = pages.table([*head, "boxes/reply", ""], rows, numbers=True) if rows else ""
    return content + (f'<p class="quiet">{pages.text(" ".join(notes))}</p>' if notes else "")


def _heat_maps(part: dict[str, Any]) -> str:
    parts = []
    for column, title in {"q1": "Q1 site", "q2": "Q2 overlap", "q3": "Q3 diagnosis"}.items():
        rows = [row for row in ranked(part) if column in row["by_class"]]
        names = sorted({name for row in rows for name in row["by_class"][column]})
        if not rows:
            continue
        head = "".join(f"<th>{pages.text(name)}</th>" for name in ["", *names])
        lines = []
        for row in rows:
            cells = "".join(_heat(row["by_class"][column].get(name)) for name in names)
            lines.append(f"<tr><td>{pages.text(row['name'])}</td>{cells}</tr>")
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


def _cost(part: dict[str, Any]) -> str:
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


def _published(published: dict[str, Any]) -> str:
    valid = {name.lower(): count / 947 for name, count in published["valid_boxes_of_947"].items()}
    parts = []
    for key, title in (("full_set_947", "full set, 947 pictures"), ("subset_60", "subset, 60 pictures")):
        full = key == "full_set_947"
        rows = [
            [row["name"], *map(number, row["values"]), *([number(valid.get(row["name"].lower()))] if full else [])]
            for row in published[key]
        ]
        head = ["model", *published["columns"], *(["valid boxes"] if full else [])]
        parts.append(f"<h3>{title}</h3>" + pages.table(head, rows, numbers=True))
    return pages.details(f"{published['note']}: not comparable with the tables above", "".join(parts))
