"""Write every form of the results into one folder."""

from __future__ import annotations

from pathlib import Path

from panendofm.linear_probe.results.document import write_probe_results
from panendofm.linear_probe.results.page import page
from panendofm.linear_probe.results.plots import confusion_plot, roc_plot
from panendofm.linear_probe.results.tables import classes_csv, latex, markdown, summary_csv
from panendofm.linear_probe.run import Benchmark
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.files import write_bytes, write_text


def write_results(benchmark: Benchmark, folder: Path) -> None:
    files = ProbeFolder(folder)
    results = benchmark.results
    write_text(files.table, markdown(results))
    write_text(folder / "table.tex", latex(results))
    write_text(folder / "summary.csv", summary_csv(results))
    write_text(folder / "classes.csv", classes_csv(results))
    plots = _plots(benchmark)
    for name, content in plots.items():
        write_bytes(folder / name, content)
    write_text(files.page, page(results, plots))
    write_probe_results(files.results, results)


def _plots(benchmark: Benchmark) -> dict[str, bytes]:
    plots: dict[str, bytes] = {}
    for task in benchmark.tasks:
        outcomes = benchmark.outcomes[task.name]
        for level in task.levels:
            name = f"{task.name}.{level.name}" if level.name else task.name
            plots[f"roc_{name}.png"] = roc_plot(task, outcomes, level)
            matrix = confusion_plot(task, outcomes, level)
            if matrix is not None:
                plots[f"confusion_{name}.png"] = matrix
    return plots
