"""One page that needs no other file: leaderboard, tasks, tests, shortcuts, and questions with replies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from markupsafe import Markup

from panendofm.reports import Table, render_page
from panendofm.reports.charts import ForestRow, forest_chart, heatmap_chart, radar_chart
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.drawn_images import drawn_image, lettered_options
from panendofm.vqa.score.accuracy.results import AccuracyResults, HumanStudy
from panendofm.vqa.score.accuracy.tables import (
    against_table,
    axis_table,
    contamination_table,
    human_table,
    leaderboard_table,
    pair_table,
    perturbed_table,
    reading_table,
    shortcut_table,
    status_table,
)
from panendofm.vqa.score.published import published_views
from panendofm.vqa.score.sheets import Contestant

_EXAMPLES = 6  # of each question type
_RADAR_LINES = 7
_LONGEST_QUOTE = 300


def page_of(bench: Bench, results: AccuracyResults, items: Sequence[Item], contestants: Sequence[Contestant]) -> str:
    examples = _examples(items)
    return render_page(
        "panendofm.vqa",
        "accuracy.html",
        title=f"{results.bench}: leaderboard",
        results=results,
        leaderboard=leaderboard_table(results),
        people=human_table(results.human, results.bootstrap.confidence) if results.human else None,
        against=against_table(results.human) if results.human else None,
        people_forest=_people_forest(results.human) if results.human else "",
        forest=_forest(results),
        radar=_radar(results),
        heatmap=_heatmap(results),
        axes={
            "By task": axis_table(results, "task"),
            "By question type": axis_table(results, "subtask"),
            "By scene": axis_table(results, "scene"),
            "By kind of visual prompt": axis_table(results, "prompt_kind"),
        },
        statuses=status_table(results),
        readings=reading_table(results),
        extracted=_extracted(results, items, contestants),
        pairs=pair_table(results),
        perturbed=perturbed_table(results),
        shortcuts=shortcut_table(results.shortcuts),
        contamination=contamination_table(results),
        examples=[(item, drawn_image(bench, item), lettered_options(item)) for item in examples],
        contestants=contestants,
        verdict=_verdict,
        seen=set(results.contamination.seen_ids) if results.contamination is not None else set(),
        filters={
            "task": sorted({item.task for item in examples}),
            "scene": sorted({item.scene for item in examples}),
            "verdict": ["all right", "some wrong", "all wrong"],
        },
        published=results.published,
        published_on="questions",
        published_views=published_views(results.published),
    )


def _extracted(results: AccuracyResults, items: Sequence[Item], contestants: Sequence[Contestant]) -> Table:
    """Every reply that extraction changed."""
    by_id = {item.id: item for item in items}
    rows = []
    for contestant in contestants:
        found = results.contestants[contestant.name].extraction
        for id_ in found.changed if found is not None else ():
            reading = contestant.plain.reading(by_id[id_])
            letter = contestant.answers.extracted.letters[id_] or ""
            verdict = "right" if letter == by_id[id_].answer else "wrong"
            rows.append([contestant.name, id_, reading.status, reading.text[:_LONGEST_QUOTE], letter, verdict])
    return Table(["contestant", "question", "strict", "reply", "read as", ""], rows, numeric=False)


def _people_forest(study: HumanStudy) -> Markup:
    """Groups of readers are hollow."""
    rows = []
    for name, own in study.ranked:
        rows.append(ForestRow.of(name, own.all.accuracy, own.all.interval))
    for name, group in study.groups.items():
        rows.append(ForestRow.of(f"{name} (mean)", group.all.accuracy, group.all.interval, hollow=True))
    chance = study.ranked[0][1].all.chance
    return forest_chart("accuracy", rows, x_label="accuracy; the line is chance", reference=chance)


def _forest(results: AccuracyResults) -> Markup:
    rows = [ForestRow.of(name, own.all.accuracy, own.all.interval) for name, own in results.ranked]
    return forest_chart("accuracy", rows, x_label="accuracy; the line is chance", reference=results.chance)


def _radar(results: AccuracyResults) -> Markup:
    ranked = results.ranked
    first = ranked[0][1].axes["task"]
    tasks = sorted(first)
    lines = [(name, [own.axes["task"][task].accuracy for task in tasks]) for name, own in ranked[:_RADAR_LINES]]
    return radar_chart("accuracy by task", tasks, [*lines, ("chance", [first[task].chance for task in tasks])])


def _heatmap(results: AccuracyResults) -> Markup:
    ranked = results.ranked
    codes = sorted(ranked[0][1].axes["subtask"])
    values = [[own.axes["subtask"][code].accuracy for code in codes] for _, own in ranked]
    return heatmap_chart("accuracy", [name for name, _ in ranked], codes, values)


def _examples(items: Sequence[Item]) -> list[Item]:
    """Some questions of each type."""
    by_type: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: keyed("example", item.id)):
        by_type[item.subtask].append(item)
    return [item for own in by_type.values() for item in own[:_EXAMPLES]]


def _verdict(item: Item, contestants: Sequence[Contestant]) -> str:
    rights = [contestant.plain.reading(item).right for contestant in contestants]
    return "all right" if all(rights) else "some wrong" if any(rights) else "all wrong"
