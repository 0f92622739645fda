"""The values that the PanEndoX paper prints, beside ours and never mixed with them: they are of other images."""

from __future__ import annotations

from panendofm.atlas import published_panendox
from panendofm.linear_probe.results.document import ProbeResults
from panendofm.linear_probe.results.tables import auc_cell
from panendofm.reports import Table
from panendofm.reports.charts import ForestRow
from panendofm.reports.numbers import estimate

TITLE = "Beside the paper's values"
NOTE = (
    "Columns marked «published» are the paper's, measured on other images and with other splits: compare orders of "
    "magnitude, not ranks. † The paper contradicts itself here (docs/explanation/source-errata.md)."
)
RANKS_TITLE = "The paper's ranks, counted in its own table"


def published_table(results: ProbeResults) -> Table:
    """Our networks, then the published ones; no rows if none of the tasks is of the paper."""
    paper = published_panendox()
    names = [model.name for model in results.models]
    columns = ["task", "classes, ours", "classes, paper", *names, *(f"{name} (published)" for name in paper.networks)]
    rows = []
    for task, by_network in results.results.items():
        printed = paper.tasks.get(task)
        if printed is None:
            continue
        counts = results.tasks[task]
        mark = "" if len(printed.classes) == printed.stated_classes else "†"
        ranks = printed.ranks()
        cells = [
            f"{estimate(*value)}{'†' if ranks.count(rank) > 1 and rank == 1 else ''}"
            for value, rank in zip(printed.values, ranks, strict=True)
        ]
        ours = [auc_cell(by_network[name].auc) for name in names]
        classes = f"{counts.evaluable_classes}/{counts.classes}"
        rows.append([counts.title, classes, f"{printed.stated_classes}{mark}", *ours, *cells])
    return Table(columns, rows)


def ranks_table() -> Table:
    """How often each published network comes first, second and third; equal values share a place."""
    rows = []
    for places in published_panendox().places():
        said = "not stated"
        if places.stated is not None:
            said = ", ".join("?" if count is None else str(count) for count in places.stated)
            said += "†" if places.differs else ""
        rows.append([places.network, *(str(count) for count in places.counted), said])
    return Table(["network", "first", "second", "third", "the text says"], rows)


def ranks_by_task(results: ProbeResults) -> Table:
    """The place of every published network on each task; «=» where it shares it."""
    paper = published_panendox()
    rows = []
    for name, task in paper.tasks.items():
        ranks = task.ranks()
        title = results.tasks[name].title if name in results.tasks else name
        rows.append([title, *(f"{rank}{'=' if ranks.count(rank) > 1 else ''}" for rank in ranks)])
    return Table(["task", *paper.networks], rows)


def notes(results: ProbeResults) -> list[str]:
    """What the paper says differently of itself, of the tasks that were run."""
    tasks = published_panendox().tasks
    return [f"{results.tasks[name].title}: {tasks[name].note}" for name in results.results if name in tasks]


def forest_rows(task: str) -> list[ForestRow]:
    paper = published_panendox()
    printed = paper.tasks.get(task)
    if printed is None:
        return []
    return [
        ForestRow(f"{name} (published)", *value, hollow=True)
        for name, value in zip(paper.networks, printed.values, strict=True)
    ]
