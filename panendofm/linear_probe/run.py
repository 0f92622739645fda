"""The whole benchmark: networks × tasks → figures, heads, tables and pictures in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from panendofm.atlas import (
    SPLITS,
    TEST,
    Crossing,
    Sample,
    Split,
    SplitConfig,
    custom_samples,
    has_official_split,
    load_atlas,
    load_split,
    load_taxonomy,
    make_split,
    official_split,
    overlapping,
    samples_of,
    save_split,
    split_path,
)
from panendofm.backbone import FeatureCache, device_of
from panendofm.backbone.networks import (
    Network,
    find_networks,
    reading_of,
)
from panendofm.linear_probe.config import ProbeConfig
from panendofm.linear_probe.features import Read, features_of, measure_efficiency, of_one_block
from panendofm.linear_probe.heads.head_file import save_head
from panendofm.linear_probe.heads.probe import Head, Protocol, train_probe
from panendofm.linear_probe.results.evaluate import TestSide, evaluate
from panendofm.linear_probe.results.label_fractions import label_fraction_curve
from panendofm.linear_probe.tasks import (
    Task,
    build_task,
    custom_task,
    evaluable,
    task_counts,
    task_specs,
    why_not_runnable,
)
from panendofm.linear_probe.truth_files import write_truth_files
from panendofm.records.documents import as_document
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import without_folders
from panendofm.scoring.classification.metrics import Floats, Targets
from panendofm.scoring.statistics.intervals import paired_p_value, percentile_interval, with_interval
from panendofm.scoring.statistics.paired_tests import holm


@dataclass(frozen=True)
class Data:
    samples: list[Sample]
    split: Split
    tasks: list[Task]
    overlaps: NDArray[np.bool_]  # [N]
    crossing: NDArray[np.bool_] | None = None  # [N]; test pictures with a twin outside, of an official split


@dataclass(frozen=True)
class Outcome:
    """A network on a task."""

    figures: dict[str, Any]
    draws: Floats
    targets: Targets  # of the test side
    logits: Floats


@dataclass(frozen=True)
class Benchmark:
    """All results; `outcomes[task][model]`."""

    protocol: Protocol
    tasks: list[Task]
    counts: dict[str, dict[str, Any]]
    skipped: dict[str, str]
    models: list[dict[str, Any]]
    outcomes: dict[str, dict[str, Outcome]]
    paired: list[dict[str, Any]]
    split: dict[str, Any]


def read_data(config: ProbeConfig) -> Data:
    """Samples, split and tasks. The split lies beside the data and is made when it is missing."""
    source = Path(config.data)
    if not source.exists():
        raise UserError(
            f"cannot read {source}: it does not exist; make an atlas with the verb 'atlas', or name other data."
        )
    if source.suffix == ".parquet":
        samples = samples_of(load_atlas(source).rows)
        tasks = [build_task(spec, samples, load_taxonomy()) for spec in task_specs(config.task)]
    else:
        samples = custom_samples(source)
        tasks = [custom_task(source.stem if source.is_file() else source.name, samples)]
    crossing: Crossing | None = None
    if has_official_split(samples):
        split, crossing = official_split(samples, config.split)
        save_split(split, samples, split_path(source, Path(config.out)))
        _say_crossing(crossing)
    else:
        split = _split(samples, split_path(source, Path(config.out)), config.split)
    images = ", ".join(f"{split.report['images'][name]} {name}" for name in SPLITS)
    say(f"split: {images}; {split.report['groups']} groups, the largest of {split.report['largest_group']} images")
    seen = overlapping(samples, config.pretraining_corpora, config.pretraining_images)
    return Data(samples, split, tasks, seen, None if crossing is None else crossing.test)


def _say_crossing(crossing: Crossing) -> None:
    if not crossing.groups:
        say("official split: no group crosses it")
        return
    first = ", ".join(crossing.named[0])
    say(
        f"official split: {crossing.groups} groups cross it with {int(crossing.test.sum())} test pictures, for example "
        f"{first}; figures are given with and without them"
    )


def _split(samples: list[Sample], path: Path, config: SplitConfig) -> Split:
    if not path.exists():
        split = make_split(samples, config)
        save_split(split, samples, path)
        return split
    split = load_split(path, samples)
    seed, shares = split.report["seed"], tuple(split.report["shares"][name] for name in SPLITS)
    if (seed, shares) != (config.seed, config.shares):
        raise UserError(
            f"{path} was made with the seed {seed} and the shares {shares}; set split.seed and the shares to these, or "
            "remove it to split anew."
        )
    return split


def run_benchmark(words: Sequence[str], config: ProbeConfig) -> Benchmark:
    device = str(device_of(config.device, "device"))
    data = read_data(config)
    skipped = {
        task.name: why
        for task in data.tasks
        if (why := why_not_runnable(task, data.split.sides[task.rows])) is not None
    }
    for name, why in skipped.items():
        say(f"task {name} can't be evaluated: {why}")
    runnable = [task for task in data.tasks if task.name not in skipped]
    if not runnable:
        raise UserError(
            f"{config.data}: none of the tasks can be evaluated; the first reason is: {next(iter(skipped.values()))}."
        )
    write_truth_files(ProbeFolder(Path(config.out)), Path(config.data), runnable, data.samples, data.split)
    networks = find_networks(words)
    outcomes: dict[str, dict[str, Outcome]] = {task.name: {} for task in runnable}
    about = []
    for network in networks:
        loaded = network.in_memory()
        for task_name, outcome in _run_network(loaded, runnable, data, config, device).items():
            outcomes[task_name][network.name] = outcome
        about.append(
            {
                "name": network.name,
                "word": without_folders(network.word),
                "architecture": network.architecture,
                "weights_sha256": network.weights_sha256,
                "certificate": None if network.certificate is None else as_document(network.certificate),
                "efficiency": asdict(measure_efficiency(loaded, device)),
            }
        )
    return Benchmark(
        config.protocol,
        runnable,
        {task.name: task_counts(task, data.split.sides[task.rows]) for task in data.tasks},
        skipped,
        about,
        outcomes,
        paired_tests(outcomes, [network.name for network in networks]),
        data.split.report,
    )


def _run_network(
    network: Network, tasks: list[Task], data: Data, config: ProbeConfig, device: str
) -> dict[str, Outcome]:
    rows = np.unique(np.concatenate([task.rows for task in tasks]))
    samples = [data.samples[i] for i in rows.tolist()]
    read = _read(network, samples, config, device, config.clean)
    as_they_came = _read(network, samples, config, device, clean=False) if config.clean else None
    place = {row: i for i, row in enumerate(rows.tolist())}
    outcomes = {}
    for task in tasks:
        inside = torch.tensor([place[row] for row in task.rows.tolist()])
        head, outcome = _run_task(task, read.only(inside), data, config)
        kind, columns = of_one_block(read.kind, head.columns, read.features.shape[1])
        path = ProbeFolder(Path(config.out)).head(network.name, task.name)
        save_head(path, replace(head, columns=columns), task, network, kind, config.clean)
        if as_they_came is not None:
            _, uncleaned = _run_task(task, as_they_came.only(inside), data, config)
            outcome.figures["as_they_came"] = _beside(uncleaned, outcome)
        auc = outcome.figures["auc"]
        say(
            f"{network.name}, {task.name}: macro-AUC {with_interval(auc['macro'], auc['low'], auc['high'])} "
            f"over {auc['classes']} classes; {head.description}"
        )
        outcomes[task.name] = outcome
    return outcomes


def _read(network: Network, samples: list[Sample], config: ProbeConfig, device: str, clean: bool) -> Read:
    named = config.named()
    return features_of(
        network,
        samples,
        config.protocol == "converged",
        FeatureCache(config.cache or ProbeFolder(Path(config.out)).features),
        config.batch_size,
        device,
        None if named is None else reading_of(network, *named),
        clean,
    )


def _beside(uncleaned: Outcome, cleaned: Outcome) -> dict[str, float | None]:
    """The macro-AUC of pictures as they came, and what cleaning changes. Both are drawn by the same groups."""
    auc, between = uncleaned.figures["auc"], percentile_interval(cleaned.draws - uncleaned.draws)
    return {
        **{name: auc[name] for name in ("macro", "low", "high")},
        "difference": cleaned.figures["auc"]["macro"] - auc["macro"],
        "difference_low": None if between is None else between.low,
        "difference_high": None if between is None else between.high,
    }


def _run_task(task: Task, read: Read, data: Data, config: ProbeConfig) -> tuple[Head, Outcome]:
    """`read` holds the features of the task's rows."""
    sides, features = data.split.sides[task.rows], read.features
    trained = train_probe(task, sides, features, read.columns, config.protocol, config.grid)
    test = sides == TEST
    rows = task.rows[test]
    side = TestSide(
        task.targets[test],
        data.split.groups[rows],
        [data.samples[i].datasets for i in rows.tolist()],
        evaluable(task, sides),
        data.overlaps[rows],
        None if data.crossing is None else data.crossing[rows],
    )
    logits = trained.head.logits(features[torch.from_numpy(test)])
    figures, draws = evaluate(task, side, logits, trained.head.temperature, config.bootstrap_replicates, config.seed)
    figures["chosen"] = {"head": trained.head.description, "validation_auc": trained.head.validation_auc}
    figures["tried"] = [
        {"head": h.description, "validation_auc": h.validation_auc, "validation_loss": h.validation_loss}
        for h in trained.tried
    ]
    if config.label_fractions:
        figures["label_fractions"] = label_fraction_curve(
            task,
            sides,
            data.split.groups[task.rows],
            features,
            read.columns,
            config.protocol,
            config.grid,
            side,
            config.label_fractions,
            config.bootstrap_replicates,
            config.seed,
        )
    return trained.head, Outcome(figures, draws, side.targets, logits)


def paired_tests(outcomes: dict[str, dict[str, Outcome]], models: list[str]) -> list[dict[str, Any]]:
    """Every pair of networks on every task, corrected for the number of tasks (Holm)."""
    result = []
    for a, b in combinations(models, 2):
        p_values = {task: paired_p_value(by[a].draws, by[b].draws) for task, by in outcomes.items()}
        corrected = holm(p_values)
        for task, by in outcomes.items():
            result.append(
                {
                    "task": task,
                    "a": a,
                    "b": b,
                    "difference": by[a].figures["auc"]["macro"] - by[b].figures["auc"]["macro"],
                    "p": p_values[task],
                    "p_corrected": corrected[task],
                }
            )
    return result
