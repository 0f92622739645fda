"""Write every form of the results into one folder."""

from __future__ import annotations

from pathlib import Path

from panendofm.linear_probe.results.page import page
from panendofm.linear_probe.results.plots import confusion_picture, roc_picture
from panendofm.linear_probe.results.tables import as_json, classes_csv, latex, markdown, summary_csv
from panendofm.linear_probe.run import Benchmark
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.files import write_bytes, write_json, write_text


def write_results(benchmark: Benchmark, folder: Path) -> None:
    files = ProbeFolder(folder)
    write_text(files.table, markdown(benchmark))
    write_text(folder / "table.tex", latex(benchmark))
    write_text(folder / "summary.csv", summary_csv(benchmark))
    write_text(folder / "classes.csv", classes_csv(benchmark))
    pictures: dict[str, bytes] = {}
    for task in benchmark.tasks:
        outcomes = benchmark.outcomes[task.name]
        for level in task.levels:
            name = f"{task.name}.{level.name}" if level.name else task.name
            pictures[f"roc_{name}.png"] = roc_picture(task, outcomes, level)
            matrix = confusion_picture(task, outcomes, level)
            if matrix is not None:
                pictures[f"confusion_{name}.png"] = matrix
    for name, content in pictures.items():
        write_bytes(folder / name, content)
    write_text(files.page, page(benchmark, pictures))
    write_json(files.results, as_json(benchmark))
