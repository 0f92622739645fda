"""index.html of a ranking: the table, the published rows, speed against quality, paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panendofm.challenge.charts import STYLE, Point, speed_quality
from panendofm.challenge.published import tables as published
from panendofm.challenge.published.tables import PublishedTable
from panendofm.challenge.score.format_metric import shown
from panendofm.reports import pages
from panendofm.reports.pages import text
from panendofm.scoring.statistics.ranking import Entry, pareto_front

RANKED_COLUMNS = ["team", "run", "rank", "MCC", "recall", "specificity", "images/s", "note"]


def rank_page(document: dict[str, Any], entries: Sequence[Entry], beside: PublishedTable | None) -> str:
    reading = f", reading {document['reading']}" if document["reading"] else ""
    title = f"Ranking: {document['task']}{reading}"
    if document["task"] == "clinical":
        ours = _clinical(document)
    else:
        ours = pages.table(RANKED_COLUMNS, ranked_rows(document), numbers=True)
    body = [
        f"<h1>{text(title)}</h1>",
        f'<p class="quiet">Profile {text(document["profile"])}; one truth, checksum '
        f"{text(document['truth_sha256'][:16])}; 95% intervals over groups.</p>",
        pages.section("Ours", ours),
        pages.section("Beside the published rows", _published(document, beside) if beside else ""),
        pages.section("Speed and quality", _chart(entries, beside)),
        pages.section("Paired tests", _tests(document)),
    ]
    return pages.page(title, "\n".join(body), STYLE)


def ranked_rows(document: dict[str, Any]) -> list[list[str]]:
    """The rows of a ranking in RANKED_COLUMNS."""
    return [
        [
            r["team"],
            r["run"],
            str(r["rank"] or "–"),
            *(shown(r["figures"][k]) for k in ("mcc", "recall", "specificity")),
            "" if r["fps"] is None else f"{r['fps']:,.2f}",
            r["note"],
        ]
        for r in document["rows"]
    ]


def _clinical(document: dict[str, Any]) -> str:
    keys = ("mcc", "mcc_second_task", "fps", "mcc_rank", "robustness_rank", "speed_rank", "mean_of_ranks")
    rows = [
        [str(r["rank"]), r["team"], *(f"{r[k]:.4f}" if isinstance(r[k], float) else str(r[k]) for k in keys)]
        for r in document["rows"]
    ]
    note = (
        '<p class="quiet">Ranks by the rules inferred from the Medico report\'s last table; its last column is no '
        "rank of their mean, so both are shown.</p>"
    )
    printed = [
        [str(r["year"]), r["team"], f"{r['mcc']:.4f}", *(str(r["printed"].get(k, "–")) for k in _PRINTED)]
        for r in published.clinical_rows()
    ]
    head = ["year", "team", "MCC", "MCC rank", "robustness rank", "speed rank", "clinical rank, as printed"]
    return (
        pages.table(["rank", "team", *(k.replace("_", " ") for k in keys)], rows, numbers=True)
        + note
        + pages.details("The published table", pages.table(head, printed, numbers=True))
    )


_PRINTED = ("mcc_rank", "robustness_rank", "speed_rank", "clinical_rank")


def _published(document: dict[str, Any], beside: PublishedTable) -> str:
    """Published rows and ours in one order of MCC; ours are marked and have no rank among them."""
    columns = ("mcc", "recall", "specificity", "fps")
    rows = [(r.figures["mcc"], False, [r.team, r.method, *(r.shown(c) for c in columns)]) for r in beside.rows]
    for r in document["rows"]:
        values = [f"{r[c]:.4f}" if r.get(c) is not None else "" for c in columns[:3]]
        fps = f"{r['fps']:,.2f}" if r.get("fps") is not None else ""
        rows.append((r["mcc"], True, [r["team"], "ours", *values, fps]))
    rows.sort(key=lambda row: -row[0])
    lines = [
        f"<tr{' class=ours' if ours else ''}>{''.join(f'<td>{text(c)}</td>' for c in cells)}</tr>"
        for _, ours, cells in rows
    ]
    head = "".join(f"<th>{text(c)}</th>" for c in ("team", "method", "MCC", "recall", "specificity", "images/s"))
    misprints = [f"{row.team}, {c}: {why}" for row in beside.rows for c, why in row.misprints.items() if c in columns]
    device = f" Times: {beside.device}." if beside.device else ""
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody>'
        f"</table></div>"
        + (f"<p>† misprinted: {text('; '.join(misprints))}.</p>" if misprints else "")
        + f'<p class="quiet">{text(beside.year)}, {beside.images:,} images.{text(device)} {text(published.note())} '
        f"{text(published.source())}.</p>"
    )


def _chart(entries: Sequence[Entry], beside: PublishedTable | None) -> str:
    """Ours and theirs have a front each: their machines and images are others."""
    printed = [row.entry() for row in beside.rows] if beside else []
    fronts = {id(e) for e in (*pareto_front(entries), *pareto_front(printed))}
    points = [
        Point(e.team if not e.run else f"{e.team} #{e.run}", e.fps, e.mcc, ours, ours and id(e) in fronts)
        for ours, group in ((True, entries), (False, printed))
        for e in group
        if e.fps
    ]
    if not points:
        return ""
    names = ", ".join(e.team for e in pareto_front(entries)) or "nobody"
    theirs = ", ".join(e.team for e in pareto_front(printed))
    note = f'<p class="quiet">Pareto front of ours (line): {text(names)}.' + (
        f" Of the published ones: {text(theirs)}.</p>" if theirs else "</p>"
    )
    return f'<div class="card">{speed_quality(points)}</div>{note}'


def _tests(document: dict[str, Any]) -> str:
    rows = [
        [
            f"{t['a']} − {t['b']}",
            f"{t['difference']:+.4f}",
            "" if t["low"] is None else f"{t['low']:+.4f} to {t['high']:+.4f}",
            f"{t['p']:.3g}",
            f"{t['p_corrected']:.3g}",
        ]
        for t in document["paired_tests"]
    ]
    head = ["systems", "difference in MCC (R_K)", "95%", "p", "p, corrected over pairs (Holm)"]
    return pages.table(head, rows, numbers=True) if rows else ""
