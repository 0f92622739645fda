"""What `panendofm probe` does without a verb."""

from __future__ import annotations

from dataclasses import replace

from panendofm.linear_probe.config import ProbeConfig
from panendofm.linear_probe.results.tables import CLEANING_TITLE, cleaning_table, main_table
from panendofm.linear_probe.results.write import write_results
from panendofm.linear_probe.run import run_benchmark
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.config import config_to_yaml
from panendofm.runtime.console import log_to, say, table
from panendofm.runtime.files import make_directory, write_text
from panendofm.runtime.locks import directory_lock
from panendofm.runtime.names import without_folders


def run_probe(networks: list[str], config: ProbeConfig) -> None:
    named = config.named()
    if named is not None:  # the stored configuration says both
        config = replace(config, block=named[0], pooling=named[1])
    out = make_directory(config.out)
    files = ProbeFolder(out)
    with directory_lock(out), log_to(files.log):
        write_text(files.config, without_folders(config_to_yaml(config)))
        benchmark = run_benchmark(networks, config)
        write_results(benchmark, out, config.published_values)
        main = main_table(benchmark.results)
        intervals = f"{100 * config.bootstrap.confidence:g}% interval over groups"
        table(f"macro-AUC ({intervals}), protocol {config.protocol}; * best", main.columns, main.with_best("*{}"))
        cleaning = cleaning_table(benchmark.results)
        if cleaning.rows:
            table(CLEANING_TITLE, cleaning.columns, cleaning.rows)
        say(f"results: {files.page}, {files.table.name}, {files.results.name}, and CSV files beside them")
