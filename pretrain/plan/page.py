"""The plan as a page of metrics. docs/explanation/plan-formulas.md has the formula of each."""

from __future__ import annotations

import math

from panendofm.runtime.console import duration, say, table, warn
from pretrain.plan.choices import Choice
from pretrain.plan.hardware import REFERENCE_EFFICIENCY
from pretrain.plan.plan import ASSUMED_IMAGE_BYTES, Plan
from pretrain.plan.requirements import print_requirements


def print_plan(plan: Plan) -> None:
    machine, gpu = plan.machine, plan.machine.gpu
    say(f"Plan for {machine.nodes} nodes × {machine.gpus_per_node} {gpu.name} ({gpu.source})")
    print_requirements(plan.needs)
    say(f"{plan.memory_needed / 1e9:.2f} of {gpu.memory_gb:.0f} GB on a GPU, with CUDA's context and gaps")
    say("data and time")
    for name, text in _facts(plan):
        say(f"  {name:<11} {text}")
    _print_choices(plan)
    for text in plan.warnings:
        warn(text)
    if not plan.warnings:
        say("It fits.")


def _print_choices(plan: Plan) -> None:
    """Where a step's time goes, and what to choose: the best way of each kind of mesh beside the config's own."""
    best = {choice.mode: choice for choice in reversed(plan.choices)}
    rows = [_choice_row(f"best {mode}", choice) for mode, choice in best.items()]
    if plan.choice is not None:
        rows.insert(0, _choice_row("this config", plan.choice))
    if not rows:
        return
    columns = ["", "recomputed", "parts", "memory", "computing", "within nodes", "between nodes", "bottleneck"]
    table(f"a step on {plan.machine.gpu.name} and {plan.machine.network}", columns, rows)
    if plan.choices and plan.choices[0].fits:
        say(f"recommended: {plan.choices[0].words()}")


def _choice_row(name: str, choice: Choice) -> list[str]:
    return [
        name,
        "yes" if choice.checkpoint_blocks else "no",
        str(choice.accumulation_steps),
        f"{choice.memory_bytes / 1e9:.1f} GB",
        f"{choice.compute_seconds:.3f} s",
        f"{choice.within_seconds:.3f} s",
        f"{choice.between_seconds:.3f} s",
        choice.bottleneck if choice.fits else "does not fit",
    ]


def _facts(plan: Plan) -> list[tuple[str, str]]:
    machine, corpus, gpu = plan.machine, plan.corpus, plan.machine.gpu
    how = "counted" if corpus.measured else f"assumed: {ASSUMED_IMAGE_BYTES / 1000:.0f} kB each, shards of 500 MB"
    source = (
        "measured, given" if machine.images_per_second else f"{REFERENCE_EFFICIENCY:.0%} of {gpu.tflops:.0f} TFLOP/s"
    )
    all_gpus = plan.images_per_second * machine.gpus
    loader = f"{1000 * plan.loader_seconds:.0f} ms of a core per image (measured here)"
    limit = 60.0 * machine.time_minutes
    write = f"{duration(plan.write_seconds)} at {machine.disk_gb_per_second:g} GB/s"
    epochs = plan.images / corpus.images
    return [
        ("corpus", f"{corpus.images:,} images, {corpus.bytes / 1e9:,.1f} GB, {corpus.shards:,} shards ({how})"),
        ("training", f"{plan.steps:,} steps of {plan.needs.step_images:,} images = {epochs:.2f} data epochs"),
        ("speed", f"{plan.images_per_second:.0f} images/s per GPU ({source}), {all_gpus:,.0f} in all"),
        ("loader", f"{loader} = {plan.cores_per_gpu:.1f} cores per GPU"),
        ("reading", f"{all_gpus * corpus.bytes / corpus.images / 1e6:,.0f} MB/s from the shards"),
        ("time", f"{duration(plan.seconds)} = {plan.gpu_hours:,.0f} GPU hours"),
        ("goes", f"{math.ceil(plan.seconds / limit)} of at most {duration(limit)}"),
        (
            "main memory",
            f"{machine.gpus_per_node * 8 * plan.needs.parameters.student / 1e9:.1f} GB per node while a run starts",
        ),
        ("checkpoint", f"{plan.needs.parameters.checkpoint_bytes / 1e9:.1f} GB, {write}"),
    ]
