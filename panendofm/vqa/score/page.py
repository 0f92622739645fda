"""One page that needs no other file: leaderboard, tasks, tests, shortcuts, and questions with replies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from panendofm.imaging.images import decode_image
from panendofm.reports import pages
from panendofm.runtime.files import write_text
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.images.draw import encode_jpeg
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.client.answers import AnswerSet
from panendofm.vqa.client.prompts import Variant
from panendofm.vqa.score.charts import radar
from panendofm.vqa.score.verdicts import Sheet

_EXAMPLE_PX = 320
_LONGEST_REPLY = 400

STYLE = """
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; font-size: 0.85rem; }
.legend span { display: inline-block; width: 0.8rem; height: 0.8rem; margin-right: 0.4rem; border-radius: 2px; }
th.sortable { cursor: pointer; } th.sortable:hover { text-decoration: underline; }
.examples { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }
.examples ul { padding-left: 1.2rem; margin: 0.3rem 0; } .right { color: #1a7f37; font-weight: 600; }
.wrong { color: #b42318; } .flag { color: #b42318; font-weight: 600; }
.replies td:first-child { white-space: nowrap; } .replies td { font-size: 0.85rem; overflow-wrap: anywhere; }
.filters label { margin-right: 1rem; } .hidden { display: none; }
"""

SCRIPT = """
document.querySelectorAll('table').forEach(table => {
  table.querySelectorAll('th').forEach((head, column) => {
    head.classList.add('sortable');
    head.addEventListener('click', () => {
      const body = table.tBodies[0], down = head.dataset.down !== 'yes';
      head.dataset.down = down ? 'yes' : 'no';
      const value = row => { const n = parseFloat(row.cells[column].textContent);
        return isNaN(n) ? row.cells[column].textContent : n; };
      [...body.rows].sort((a, b) => { const x = value(a), y = value(b);
        const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
        return down ? -order : order; }).forEach(row => body.appendChild(row));
    });
  });
});
const selects = [...document.querySelectorAll('.filters select')];
function filter() {
  let shown = 0;
  document.querySelectorAll('.example').forEach(card => {
    const keep = selects.every(s => !s.value || card.dataset[s.name] === s.value);
    card.classList.toggle('hidden', !keep);
    shown += keep;
  });
  const place = document.getElementById('shown');
  if (place) place.textContent = shown + ' shown';
}
selects.forEach(s => s.addEventListener('change', filter));
filter();
"""


def write_page(
    bench: Bench,
    results: dict[str, Any],
    items: Sequence[Item],
    sets: Sequence[AnswerSet],
    sheets: Sequence[Sheet],
    leaderboard: tuple[list[str], list[list[str]]],
    out: Path,
    examples_per_subtask: int,
) -> None:
    partial = ""
    if results["questions"] < results["questions_in_bench"]:
        partial = f" Only {results['questions']} of {results['questions_in_bench']} questions are scored."
    body = (
        f"<h1>{pages.text(results['bench'])}: leaderboard</h1>"
        f'<p class="quiet">{results["questions"]} questions in {results["groups"]} groups; reviewed by physicians: '
        f"{results['reviewed']}. Intervals: 95%, {results['draws']} draws of whole groups. A reply that can't be read "
        f"is wrong.{pages.text(partial)}</p>"
        + pages.section("Contestants", pages.table(*leaderboard, numbers=True) + _explanation())
        + pages.section("By task", _radar(results) + _axis(results, "task"))
        + pages.section("By sub-task", _axis(results, "subtask"))
        + pages.section("By scene", _axis(results, "scene"))
        + pages.section("By kind of visual prompt", _axis(results, "prompt_kind"))
        + pages.section("Statuses of the replies", _statuses(results))
        + pages.section("Differences", _pairs(results))
        + pages.section("Spoiled pictures", _perturbed(results))
        + pages.section("Shortcuts without the picture", _shortcuts(results))
        + pages.section("Pictures that were seen elsewhere", _contamination(results))
        + pages.section("Published figures, on other questions", _published(results))
        + pages.section("Questions and replies", _examples(bench, items, sets, sheets, examples_per_subtask, results))
        + f"<script>{SCRIPT}</script>"
    )
    write_text(out, pages.page(f"{results['bench']}: leaderboard", body, STYLE))


def _explanation() -> str:
    return (
        '<p class="quiet">Above chance: (accuracy − chance) / (1 − chance). Macro: mean over tasks. Rotation: every '
        "question in each order of its options. Circular: right in all of them. Blind: asked without the picture. "
        "Unreadable: refusals, cut-off, empty, ambiguous and failed replies.</p>"
    )


def _ranked(results: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(results["contestants"].items(), key=lambda pair: (-pair[1]["all"]["accuracy"], pair[0]))


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _p(value: float) -> str:
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _interval(pair: list[float] | None) -> str:
    return "–" if pair is None else f"{pair[0]:.3f} to {pair[1]:.3f}"


def _radar(results: dict[str, Any]) -> str:
    ranked = _ranked(results)
    tasks = sorted(ranked[0][1]["task"])
    chance = [ranked[0][1]["task"][task]["chance"] for task in tasks]
    lines = [(name, [own["task"].get(t, {}).get("accuracy") for t in tasks]) for name, own in ranked[:7]]
    return radar(tasks, [*lines, ("chance", chance)])


def _axis(results: dict[str, Any], axis: str) -> str:
    ranked = _ranked(results)
    names = sorted(ranked[0][1][axis])
    first = ranked[0][1][axis]
    rows = [
        ["questions", *(str(first[n]["n"]) for n in names)],
        ["chance", *(_number(first[n]["chance"]) for n in names)],
    ]
    best = [[False] * (len(names) + 1)] * 2
    tops = [max(own[axis][n]["accuracy"] for _, own in ranked) for n in names]
    for name, own in ranked:
        rows.append([name, *(_number(own[axis][n]["accuracy"]) for n in names)])
        best.append([False, *(own[axis][n]["accuracy"] == top for n, top in zip(names, tops, strict=True))])
    return pages.table(["contestant", *names], rows, numbers=True, best=best)


def _statuses(results: dict[str, Any]) -> str:
    ranked = _ranked(results)
    names = [s for s in ranked[0][1]["statuses"] if any(own["statuses"][s] for _, own in ranked)]
    rows = [[name, *(str(own["statuses"][s]) for s in names)] for name, own in ranked]
    return pages.table(["contestant", *names], rows, numbers=True)


def _pairs(results: dict[str, Any]) -> str:
    if not results["pairs"]:
        return ""
    rows = [
        [
            f"{row['a']} − {row['b']}", f"{row['difference']:+.3f}", _interval(row["interval"]), row["test"],
            _p(row["p"]), _p(row["p_holm"]),
        ]
        for row in results["pairs"]
    ]  # fmt: skip
    return pages.table(["pair", "difference", "95%", "test", "p", "p (Holm)"], rows, numbers=True)


def _perturbed(results: dict[str, Any]) -> str:
    rows = [
        [
            name,
            kind,
            str(f["n"]),
            _number(f["clean_accuracy"]),
            _number(f["perturbed_accuracy"]),
            _number(f["retention"]),
            _number(f["flip_rate"]),
        ]
        for name, own in _ranked(results)
        for kind, f in own.get("perturbed", {}).items()
    ]
    head = ["contestant", "how", "n", "clean", "spoiled", "kept above chance", "answers changed"]
    return pages.table(head, rows, numbers=True) if rows else ""


def _shortcuts(results: dict[str, Any]) -> str:
    rows = [
        [
            r["shortcut"],
            r["task"],
            str(r["n"]),
            _number(r["accuracy"]),
            _number(r["chance"]),
            "flagged" if r["flagged"] else "",
        ]
        for r in results["shortcuts"]
    ]
    return pages.table(["shortcut", "task", "n", "accuracy", "chance", ""], rows, numbers=True)


def _contamination(results: dict[str, Any]) -> str:
    report = results.get("contamination")
    if report is None:
        return '<p class="quiet">Not looked for; see <code>vqa contamination</code>.</p>'
    places = ", ".join(f"{p['name']} ({p['pictures']})" for p in report["places"])
    rows = [
        [name, *(_number(own.get(part, {}).get("accuracy")) for part in ("seen", "not_seen"))]
        for name, own in report["accuracy"].items()
    ]
    note = (
        f"<p>{report['questions_seen']} questions show one of {report['pictures_seen']} pictures that were found in "
        f"{pages.text(places)}.</p>"
    )
    return note + pages.table(["contestant", "accuracy on seen", "on the others"], rows, numbers=True)


def _published(results: dict[str, Any]) -> str:
    published = results["published"]
    tasks = list(published["questions"])
    rows = [
        [r["name"], _number(r["micro"], 2), *(_number(r["tasks"].get(t), 2) for t in tasks)] for r in published["rows"]
    ]
    table = pages.table(["model (percent)", "micro", *tasks], rows, numbers=True)
    return pages.details(f"{published['note']}: not comparable with the tables above", table)


# ------------------------------------------------------------------------------------------ examples


def _examples(
    bench: Bench,
    items: Sequence[Item],
    sets: Sequence[AnswerSet],
    sheets: Sequence[Sheet],
    count: int,
    results: dict[str, Any],
) -> str:
    seen = set(results.get("contamination", {}).get("seen_ids", ()))
    by_subtask: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: keyed("example", item.id)):
        by_subtask[item.subtask].append(item)
    chosen = [item for own in by_subtask.values() for item in own[:count]]
    cards = "".join(_card(bench, item, sets, sheets, item.id in seen) for item in chosen)
    filters = select("task", sorted({i.task for i in chosen})) + select("scene", sorted({i.scene for i in chosen}))
    filters += select("verdict", ["all right", "some wrong", "all wrong"])
    return f'<p class="filters">{filters}<span id="shown" class="quiet"></span></p><div class="examples">{cards}</div>'


def select(name: str, values: Sequence[str]) -> str:
    options = "".join(f"<option>{pages.text(value)}</option>" for value in values)
    return f'<label>{name} <select name="{name}"><option value="">all</option>{options}</select></label>'


def _card(bench: Bench, item: Item, sets: Sequence[AnswerSet], sheets: Sequence[Sheet], seen: bool) -> str:
    rights = [bool((v := sheet.plain(item)) and v.right) for sheet in sheets]
    verdict = "all right" if all(rights) else "some wrong" if any(rights) else "all wrong"
    options = "".join(
        f"<li{' class=right' if letter == item.answer else ''}>{letter}. {pages.text(option)}</li>"
        for letter, option in zip(LETTERS, item.options, strict=False)
    )
    rows = []
    for one, sheet, right in zip(sets, sheets, rights, strict=True):
        answer = one.answers.get((item.id, Variant(prompt=sheet.prompt)))
        own = sheet.plain(item)
        reply = (answer.error or answer.response) if answer is not None else ""
        short = reply if len(reply) <= _LONGEST_REPLY else reply[:_LONGEST_REPLY] + " …"
        status = own.status if own is not None else "error"
        rows.append(
            f"<tr><td>{pages.text(sheet.name)}</td><td>{pages.text(short)}</td>"
            f'<td class="{"right" if right else "wrong"}">{"right" if right else "wrong"}'
            f"{'' if status == 'ok' else f' ({status})'}</td></tr>"
        )
    flag = '<p class="flag">seen elsewhere</p>' if seen else ""
    return (
        f'<div class="card example" data-task="{item.task}" data-scene="{item.scene}" data-verdict="{verdict}">'
        f"{thumbnail(bench, item)}<p><b>{item.subtask}</b> · {item.scene} · <code>{item.id}</code></p>{flag}"
        f"<p>{pages.text(item.question)}</p><ul>{options}</ul>"
        f'<table class="replies"><tbody>{"".join(rows)}</tbody></table></div>'
    )


def thumbnail(bench: Bench, item: Item, longest_px: int = _EXAMPLE_PX) -> str:
    """The question's picture, small enough for a page with many."""
    if not item.image:
        return ""
    picture = decode_image(bench.picture(item), item.image)
    scale = min(1.0, longest_px / max(picture.shape[:2]))
    if scale < 1:
        size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    return pages.image(encode_jpeg(picture, 85), item.id, "jpeg")
