"""Write every form of the results into one folder."""

from __future__ import annotations

from pathlib import Path

from panendofm.linear_probe.results.document import write_probe_results
from panendofm.linear_probe.results.page import page
from panendofm.linear_probe.results.plots import confusion_plot, roc_plot
from panendofm.linear_probe.results.published import published_table
from panendofm.linear_probe.results.tables import as_markdown, caption, csv_tables, main_table
from panendofm.linear_probe.run import Benchmark
from panendofm.records.probe import ProbeFolder
from panendofm.reports import latex
from panendofm.runtime.files import write_bytes, write_text


def write_results(benchmark: Benchmark, folder: Path, published_values: bool = True) -> None:
    files = ProbeFolder(folder)
    results = benchmark.results
    beside = published_table(results) if published_values else None
    write_text(files.table, as_markdown(results, beside))
    write_text(folder / "table.tex", latex(main_table(results), caption(results)))
    for name, text in csv_tables(results).items():
        write_text(folder / name, text)
    plots = _plots(benchmark)
    for name, content in plots.items():
        write_bytes(folder / name, content)
    write_text(files.page, page(results, plots, benchmark.paths, published_values))
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
