"""Pictures with everybody's boxes and replies, for the leaderboard's page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from panendofm.reports import pages
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.bench.lesion_config import NEGATIVE
from panendofm.vqa.score.charts import PALETTE
from panendofm.vqa.score.gi_bench.estimates import columns_of
from panendofm.vqa.score.gi_bench.sheets import Sheet
from panendofm.vqa.score.page import select, thumbnail

STYLE = """
.overlays { display: flex; flex-wrap: wrap; gap: 0.7rem; } .overlays figure { width: 13rem; }
.drawn { position: relative; } .drawn img { display: block; width: 100%; }
.drawn svg { position: absolute; left: 0; top: 0; width: 100%; height: 100%; }
.examples { grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr)); }
.example table { width: 100%; } .example td, .example th { font-size: 0.85rem; padding-right: 0.4rem; }
.example td:first-child, .example td[colspan] { overflow-wrap: anywhere; }
.example .key { display: inline-block; width: 0.7rem; height: 0.7rem; margin-right: 0.3rem; border-radius: 2px; }
"""
_TRUTH = "#19c819"
_LONGEST_TEXT = 300
Mark = tuple[str, Sequence[float], str]  # colour, box, title


def overlays(bench: Bench, sheets: Sequence[Sheet]) -> str:
    """Of each contestant the worst, median and best box: truth in green, the reply's first box in red."""
    items = columns_of(bench.items).lesions.get("q2", [])
    parts = []
    for sheet in sheets:
        own = [item for item in items if item.id in sheet.asked]
        scored = sorted(((sheet.value("q2", item) or 0.0, item) for item in own), key=lambda s: (s[0], s[1].id))
        if not scored:
            continue
        chosen = {"worst": scored[0], "median": scored[len(scored) // 2], "best": scored[-1]}
        figures = []
        for title, (iou, item) in chosen.items():
            reply = sheet.q2[item.sha256]
            marks = _truth(item) + [("#e61919", box, "reply") for box in reply.boxes[:1]]
            note = f"{title}: {iou:.2f}, {item.entity}" + ("" if reply.boxes else f" (reply: {reply.status})")
            figures.append(f"<figure>{_drawn(bench, item, marks)}<figcaption>{pages.text(note)}</figcaption></figure>")
        parts.append(f'<h3>{pages.text(sheet.name)}</h3><div class="overlays">{"".join(figures)}</div>')
    return "".join(parts)


def _truth(item: Item) -> list[Mark]:
    return [(_TRUTH, region.box, "truth") for region in item.targets]


def _drawn(bench: Bench, item: Item, marks: Sequence[Mark]) -> str:
    """The picture with boxes over it, in the picture's own pixels."""
    line = max(item.width, item.height) / 150  # the truth is twice as wide, so that it shows below a reply
    rects = "".join(
        f'<rect x="{x1:.1f}" y="{y1:.1f}" width="{x2 - x1:.1f}" height="{y2 - y1:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="{2 * line if colour == _TRUTH else line:.1f}">'
        f"<title>{pages.text(title)}</title></rect>"
        for colour, (x1, y1, x2, y2), title in marks
    )
    return (
        f'<div class="drawn">{thumbnail(bench, item, 300)}'
        f'<svg viewBox="0 0 {item.width} {item.height}" preserveAspectRatio="none">{rects}</svg></div>'
    )


def examples(bench: Bench, sheets: Sequence[Sheet], per_class: int = 2) -> str:
    """Some pictures of each class with all replies; to be filtered by site and class."""
    by_picture: dict[str, dict[str, Item]] = defaultdict(dict)
    for item in bench.items:
        by_picture[item.sha256][item.task] = item
    by_class: dict[str, list[dict[str, Item]]] = defaultdict(list)
    # Those that people answered first: there everybody can be compared.
    order = sorted(by_picture, key=lambda sha: (not _first(by_picture[sha]).human, keyed("example", sha)))
    for sha256 in order:
        by_class[_first(by_picture[sha256]).entity].append(by_picture[sha256])
    chosen = [questions for name in sorted(by_class) for questions in by_class[name][:per_class]]
    cards = "".join(_card(bench, questions, sheets) for questions in chosen)
    filters = select("site", sorted({_site(bench, _first(questions)) for questions in chosen}))
    filters += select("lesion", sorted({_lesion(_first(questions)) for questions in chosen}))
    return f'<p class="filters">{filters}<span id="shown" class="quiet"></span></p><div class="examples">{cards}</div>'


def _first(questions: dict[str, Item]) -> Item:
    """Any question of the picture: a review may have dropped each of them."""
    return next(iter(questions.values()))


def _site(bench: Bench, item: Item) -> str:
    return str(bench.manifest["sites"].get(item.scene, item.scene))


def _lesion(item: Item) -> str:
    return "no lesion" if item.entity == NEGATIVE else item.entity


def _card(bench: Bench, questions: dict[str, Item], sheets: Sequence[Sheet]) -> str:
    first = _first(questions)
    box = questions.get("Q2")
    marks = _truth(box) if box is not None else []
    rows = []
    for sheet, colour in zip(sheets, PALETTE * len(sheets), strict=False):
        if first.id not in sheet.asked:
            continue
        cells = [_choice(sheet, questions[task]) if task in questions else "–" for task in ("Q1", "Q3")]
        overlap = "–"
        if box is not None:
            reply = sheet.q2[box.sha256]
            marks += [(colour, found, sheet.name) for found in reply.boxes[:1]]
            overlap = f"{sheet.value('q2', box) or 0.0:.2f}" if reply.boxes and box.targets else reply.status
        texts = [sheet.replies.get(task, {}).get(first.sha256, "") for task in ("Q4", "Q5")]
        said = " · ".join(t if len(t) <= _LONGEST_TEXT else f"{t[:_LONGEST_TEXT]} …" for t in texts if t)
        rows.append(
            f'<tr><td><span class="key" style="background:{colour}"></span>{pages.text(sheet.name)}</td>'
            f"<td>{cells[0]}</td><td>{pages.text(overlap)}</td><td>{cells[1]}</td></tr>"
            + (f'<tr><td colspan="4" class="quiet">{pages.text(said)}</td></tr>' if said else "")
        )
    site, lesion = pages.text(_site(bench, first)), pages.text(_lesion(first))
    return (
        f'<div class="card example" data-site="{site}" data-lesion="{lesion}">'
        f"{_drawn(bench, box or first, marks)}<p><b>{lesion}</b> · {site}</p><table><thead><tr><th></th><th>site</th>"
        f"<th>overlap</th><th>diagnosis</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _choice(sheet: Sheet, item: Item) -> str:
    verdict = (sheet.q1 if item.task == "Q1" else sheet.q3)[item.sha256]
    said = sheet.chosen(item) or verdict.status
    return f'<span class="{"right" if verdict.right else "wrong"}">{pages.text(said)}</span>'
