"""The whole benchmark: networks × tasks → metrics, heads, tables and plots in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from panendofm.atlas import (
    TEST,
    Crossing,
    Sample,
    Split,
    Task,
    build_task,
    custom_samples,
    custom_task,
    evaluable,
    has_official_split,
    load_atlas,
    load_or_make_split,
    official_split,
    overlapping,
    samples_of,
    save_split,
    split_path,
    task_specs,
    why_not_runnable,
)
from panendofm.backbone import FeatureCache, device_of
from panendofm.backbone.networks import Network, find_networks, reading_of
from panendofm.linear_probe.config import ProbeConfig
from panendofm.linear_probe.features import Read, features_of, measure_efficiency, of_one_block
from panendofm.linear_probe.heads.head_file import save_head
from panendofm.linear_probe.heads.probe import Head, Trained, train_probe
from panendofm.linear_probe.results.counts import task_counts
from panendofm.linear_probe.results.document import (
    PairedTest,
    ProbedNetwork,
    ProbeResults,
    SeedSpread,
    TaskMetrics,
    Uncleaned,
)
from panendofm.linear_probe.results.evaluate import TestSide, evaluate
from panendofm.linear_probe.results.label_fractions import label_fraction_curve
from panendofm.linear_probe.results.left_out import leave_one_dataset_out
from panendofm.linear_probe.truth_files import write_truth_files
from panendofm.records.probe import ProbeFolder
from panendofm.reports.numbers import estimate as shown_estimate
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import without_folders
from panendofm.scoring.classification.metrics import Floats, Targets, macro, roc_auc
from panendofm.scoring.statistics.intervals import percentile_interval
from panendofm.scoring.statistics.paired_tests import Measured, compare


@dataclass(frozen=True)
class Data:
    samples: list[Sample]
    split: Split
    tasks: list[Task]
    overlaps: NDArray[np.bool_]  # [N]
    crossing: NDArray[np.bool_] | None = None  # [N]; test images with a near-duplicate outside, of an official split


@dataclass(frozen=True)
class Outcome:
    """A network on a task."""

    metrics: TaskMetrics
    draws: Floats
    targets: Targets  # of the test side
    logits: Floats


@dataclass(frozen=True)
class Benchmark:
    """The results, and what plots are drawn from: `outcomes[task][network]`, and images by checksum."""

    results: ProbeResults
    tasks: list[Task]
    outcomes: dict[str, dict[str, Outcome]]
    paths: dict[str, str]


def read_data(config: ProbeConfig) -> Data:
    """Samples, split and tasks. The split lies beside the data and is made when it is missing."""
    source = Path(config.data)
    if not source.exists():
        raise UserError(
            f"cannot read {source}: it does not exist; make an atlas with the verb 'atlas', or name other data."
        )
    if source.suffix == ".parquet":
        samples = samples_of(load_atlas(source).rows)
        tasks = [build_task(spec, samples) for spec in task_specs(config.task, config.tasks)]
    else:
        samples = custom_samples(source, config.split.near_duplicate_bits)
        tasks = [custom_task(source.stem if source.is_file() else source.name, samples)]
    path = split_path(source, Path(config.out))
    crossing: Crossing | None = None
    if has_official_split(samples):
        split, crossing = official_split(samples, config.split)
        save_split(split, samples, path)
        _say_crossing(crossing)
    else:
        split = load_or_make_split(samples, path, config.split)
    say(f"split: {split.report}")
    seen = overlapping(samples, config.pretraining_corpora, config.pretraining_images)
    return Data(samples, split, tasks, seen, None if crossing is None else crossing.test)


def _say_crossing(crossing: Crossing) -> None:
    if not crossing.groups:
        say("official split: no group crosses it")
        return
    first = ", ".join(crossing.named[0])
    say(
        f"official split: {crossing.groups} groups cross it with {int(crossing.test.sum())} test images, for example "
        f"{first}; metrics are given with and without them"
    )


def run_benchmark(specs: Sequence[str], config: ProbeConfig) -> Benchmark:
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
    networks = find_networks(specs)
    outcomes: dict[str, dict[str, Outcome]] = {task.name: {} for task in runnable}
    about = []
    for network in networks:
        loaded = network.in_memory()
        for task_name, outcome in _run_network(loaded, runnable, data, config, device).items():
            outcomes[task_name][network.name] = outcome
        about.append(
            ProbedNetwork(
                name=network.name,
                word=without_folders(network.word),
                architecture=network.architecture,
                weights_sha256=network.weights_sha256,
                certificate=network.certificate,
                efficiency=measure_efficiency(loaded, device),
            )
        )
    results = ProbeResults(
        protocol=config.protocol,
        models=about,
        tasks={task.name: task_counts(task, data.split.sides[task.rows]) for task in data.tasks},
        not_evaluable=skipped,
        results={task: {name: one.metrics for name, one in by.items()} for task, by in outcomes.items()},
        paired_tests=paired_tests(outcomes, [network.name for network in networks], config.bootstrap.confidence),
        split=data.split.report,
        confidence=config.bootstrap.confidence,
        task_set=config.tasks,
    )
    return Benchmark(results, runnable, outcomes, {sample.sha256: sample.path for sample in data.samples})


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
            metrics = replace(outcome.metrics, as_they_came=_beside(uncleaned, outcome, config.bootstrap.confidence))
            outcome = replace(outcome, metrics=metrics)
        auc = outcome.metrics.auc
        say(
            f"{network.name}, {task.name}: macro-AUC {shown_estimate(auc.macro, auc.low, auc.high)} "
            f"over {auc.classes} classes; {head.description}"
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


def _beside(uncleaned: Outcome, cleaned: Outcome, confidence: float) -> Uncleaned:
    """Both are drawn by the same groups. A task runs only when a class is evaluable, so both have a macro-AUC."""
    auc = uncleaned.metrics.auc
    low, high = percentile_interval(cleaned.draws - uncleaned.draws, confidence) or (None, None)
    return Uncleaned(auc.macro, auc.low, auc.high, _macro(cleaned) - _macro(uncleaned), low, high)


def _macro(outcome: Outcome) -> float:
    value = outcome.metrics.auc.macro
    return float("nan") if value is None else value


def _run_task(task: Task, read: Read, data: Data, config: ProbeConfig) -> tuple[Head, Outcome]:
    """`read` holds the features of the task's rows."""
    sides = data.split.sides[task.rows]
    features = read.features
    trained = train_probe(task, sides, features, read.columns, config.protocol, config.grid)
    test = sides == TEST
    rows = task.rows[test]
    side = TestSide(
        task.targets[test],
        data.split.groups[rows],
        [data.samples[i].traits for i in rows.tolist()],
        [data.samples[i].sha256 for i in rows.tolist()],
        evaluable(task, sides),
        data.overlaps[rows],
        None if data.crossing is None else data.crossing[rows],
    )
    logits = trained.head.logits(features[torch.from_numpy(test)])
    metrics, draws = evaluate(task, side, logits, trained, config.bootstrap)
    metrics = replace(metrics, seeds=_seeds(task, read, sides, side, trained, config))
    groups = data.split.groups[task.rows]
    if config.leave_one_dataset_out:
        datasets = [data.samples[i].datasets for i in task.rows.tolist()]
        others = leave_one_dataset_out(task, sides, groups, datasets, features, read.columns, config)
        metrics = replace(metrics, left_out_datasets=others)
    if config.label_fractions:
        curve = label_fraction_curve(task, sides, groups, features, read.columns, side, config)
        metrics = replace(metrics, label_fractions=curve)
    return trained.head, Outcome(metrics, draws, side.targets, logits)


def _seeds(
    task: Task, read: Read, sides: NDArray[np.int64], side: TestSide, first: Trained, config: ProbeConfig
) -> SeedSpread:
    """The head that is used has the first seed; the others are trained for their spread alone."""
    test = torch.from_numpy(sides == TEST)
    heads = [first.head]
    for seed in range(1, config.seeds):
        training = replace(config.grid.training, seed=config.grid.training.seed + seed)
        grid = replace(config.grid, training=training)
        heads.append(train_probe(task, sides, read.features, read.columns, config.protocol, grid, first.tried).head)
    values = []
    for head in heads:
        areas = roc_auc(side.targets, head.logits(read.features[test]))
        values.append(macro(np.where(side.evaluable, areas, np.nan)))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return SeedSpread(values, float(np.mean(values)), deviation)


def paired_tests(outcomes: dict[str, dict[str, Outcome]], networks: list[str], confidence: float) -> list[PairedTest]:
    """Every pair of networks on every task, corrected for the number of all comparisons (Holm)."""
    names = [(task, a, b) for a, b in combinations(networks, 2) for task in outcomes]
    measured = {
        (task, name): Measured(_macro(one), one.draws) for task, by in outcomes.items() for name, one in by.items()
    }
    compared = compare([(measured[task, a], measured[task, b]) for task, a, b in names], confidence)
    return [PairedTest(*name, *vars(found).values()) for name, found in zip(names, compared, strict=True)]
