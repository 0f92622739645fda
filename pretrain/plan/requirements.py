"""What a config asks of each rank: the one owner of these metrics, for a run, `pretrain estimate` and `launch plan`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from panendofm.runtime.console import say, table
from pretrain.config import PretrainConfig
from pretrain.distill_teacher import planned_teacher_form
from pretrain.objective.kinds import make_objective
from pretrain.objective.objective import Objective
from pretrain.plan.memory import MemoryEstimate, memory_of
from pretrain.plan.parameters import Parameters, count_parameters
from pretrain.plan.rows import Rows, rows_of
from pretrain.plan.work import ASSUMED_IMAGES, flops_per_image


@dataclass(frozen=True)
class Requirements:
    """Of each of the ranks of a run, and of one image."""

    ranks: int
    rows: Rows
    parameters: Parameters
    memory: MemoryEstimate  # of the first rank, which has the most
    flops_per_image: float
    step_images: int


def objective_on_meta(config: PretrainConfig, corpus_images: int = ASSUMED_IMAGES) -> Objective:
    """Shapes without data."""
    teacher = planned_teacher_form(config)  # before: it reads real weights
    with torch.device("meta"):
        return make_objective(
            config.model.vit(), config.trained_objective, None, config.model.trainable, corpus_images, teacher
        )


def requirements_of(
    config: PretrainConfig,
    ranks: int,
    ranks_per_node: int,
    images: int | None = None,
    corpus_images: int = ASSUMED_IMAGES,
) -> Requirements:
    """With `images` at a time on each rank; None: its share of the batch.

    `corpus_images` counts for instance classification alone, whose head has a row for each.
    """
    objective = objective_on_meta(config, corpus_images)
    rows = rows_of(config, images or config.batch.images_per_rank(ranks))
    return Requirements(
        ranks=ranks,
        rows=rows,
        parameters=count_parameters(objective),
        memory=memory_of(config, objective, rows, ranks, ranks_per_node),
        flops_per_image=flops_per_image(config, corpus_images, planned_teacher_form(config)),
        step_images=config.batch.images,
    )


def print_requirements(needs: Requirements) -> None:
    parameters, rows = needs.parameters, needs.rows
    table("parameters", ["", "millions"], [
        ["backbone", f"{parameters.backbone / 1e6:,.3f}"],
        *([name.replace("_", " "), f"{count / 1e6:,.3f}"] for name, count in parameters.heads.items()),
        ["student", f"{parameters.student / 1e6:,.3f}"],
        ["teacher", f"{parameters.student / 1e6:,.3f}"],
        *([["trained", f"{parameters.trained / 1e6:,.3f}"]] if parameters.trained < parameters.student else []),
        *([["anchor", f"{parameters.anchor / 1e6:,.3f}"]] if parameters.anchor else []),
    ])  # fmt: skip
    at_a_time = f"{rows.images} images, {rows.student_tokens:,} student tokens at a time"
    table(f"memory of each of {needs.ranks} ranks ({at_a_time})", ["part", "size"], needs.memory.rows())
    work = needs.flops_per_image
    say(f"{work / 1e12:.3f} TFLOP per image, {work * needs.step_images / 1e15:.3f} PFLOP per step")
