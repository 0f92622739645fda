"""Several students in one run: one pass of the teacher, and each learns, is scored and is read as if it were alone."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from distill_reference import DINO, IBOT, LARGE, SMALL, TEMPERATURE, WIDE, batch_of, objective_of, prototype_losses
from engine_runs import (
    finish,
    metrics_of,
    monitored,
    run_ranks,
    start_ranks,
    tensors_of,
    words_of,
    write_classes,
)
from torch import Tensor, nn

from panendofm.backbone import VisionTransformer, load_backbone, vit_config
from panendofm.records.evaluation import read_evaluations
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig, requirements_of
from pretrain.objective.distillation.objective import DistillObjective, TeacherForm
from pretrain.optimizer.config import OptimizerConfig
from pretrain.optimizer.parameter_groups import parameter_groups
from pretrain.plan.communication import traffic_of
from pretrain.plan.requirements import objective_on_meta
from pretrain.rehearsal.fake_run import rehearse_rank

B = 3
LAST = 6  # step of the runs
PATIENCE_SECONDS = 600
FORMS = {"prototypes": (LARGE, DINO, IBOT), "shared head": (LARGE, DINO, None), "features": (LARGE, None, None)}


def of_student(objective: DistillObjective, name: str) -> dict[str, nn.Module]:
    """Its networks, as they are called where it is alone."""
    own = {
        key.rpartition("/")[2]: module for key, module in objective.student.items() if key.rpartition("/")[0] == name
    }
    assert "backbone" in own
    return own


@pytest.mark.parametrize("kind", FORMS)
def test_each_learns_as_if_it_were_alone(kind: str) -> None:
    """Bit for bit: losses and gradients of either are those of an objective that teaches nobody else."""
    together, given = objective_of(TeacherForm(*FORMS[kind], further_students={"wide": WIDE})), batch_of(B)
    losses = together(given, TEMPERATURE)
    losses["total"].backward()
    for name, vit in (("", SMALL), ("wide", WIDE)):
        alone = objective_of(TeacherForm(*FORMS[kind]), vit)
        alone.distill_teacher.load_state_dict(together.distill_teacher.state_dict())
        own = of_student(together, name)
        for part, module in alone.student.items():
            module.load_state_dict(own[part].state_dict())
        expected = alone(given, TEMPERATURE)
        expected["total"].backward()
        prefix = f"{name}/" if name else ""
        assert {f"{prefix}{loss}" for loss in expected} - {f"{prefix}total"} <= losses.keys()
        for loss, value in expected.items():
            assert loss == "total" or torch.equal(losses[f"{prefix}{loss}"], value), (name, loss)
        for part, module in alone.student.items():
            for (parameter, a), b in zip(module.named_parameters(), own[part].parameters(), strict=True):
                assert (a.grad is None) == (b.grad is None), (name, part, parameter)
                assert a.grad is None or torch.equal(a.grad, b.grad), (name, part, parameter)
    total = sum(value for loss, value in losses.items() if loss != "total")
    torch.testing.assert_close(losses["total"], total)


def test_the_losses_of_a_further_student_are_those_of_the_definition() -> None:
    objective, given = objective_of(TeacherForm(LARGE, DINO, IBOT, {"wide": WIDE})), batch_of(B)
    losses = objective(given, TEMPERATURE)
    for name, value in prototype_losses(objective, of_student(objective, "wide"), given, "ibot_head").items():
        assert losses[f"wide/{name}"].item() == pytest.approx(value, rel=1e-6), name


def test_the_teacher_computes_once() -> None:
    objective, given = objective_of(TeacherForm(LARGE, DINO, IBOT, {"wide": WIDE, "small": SMALL})), batch_of(B)
    passes: list[str] = []
    for name, module in objective.distill_teacher.items():
        module.register_forward_hook(lambda *_, name=name: passes.append(name))
    objective(given, TEMPERATURE)
    assert sorted(passes) == ["backbone", "dino_head", "ibot_head"]


def test_every_average_follows_its_student() -> None:
    objective = objective_of(TeacherForm(LARGE, further_students={"wide": WIDE}))
    before = {name: tensor.clone() for name, tensor in objective.teacher.state_dict().items()}
    objective.update_teacher(0.9)
    for name in ("backbone.norm.weight", "wide/backbone.norm.weight"):
        expected = 0.9 * before[name] + 0.1 * objective.student.state_dict()[name]
        torch.testing.assert_close(objective.teacher.state_dict()[name], expected)
    assert all(not p.requires_grad for p in objective.teacher.parameters())


def test_layers_count_within_their_own_student() -> None:
    """A block's learning rate falls with the blocks above it: those of its own network."""
    objective = objective_of(TeacherForm(LARGE, further_students={"wide": WIDE}))
    groups = parameter_groups(objective.student.named_parameters(), OptimizerConfig(layerwise_decay=0.5))
    above = {name: group["layers_above"] for group in groups for name in group["names"]}
    assert above["backbone.blocks.0.norm1.weight"] == SMALL.depth
    assert above["wide/backbone.blocks.0.norm1.weight"] == WIDE.depth == 1
    assert above["wide/backbone.norm.weight"] == 0
    multipliers = {name: group["lr_multiplier"] for group in groups for name in group["names"]}
    assert multipliers["wide/backbone.blocks.0.norm1.weight"] == pytest.approx(0.5)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classes(tmp_path_factory.mktemp("classes") / "images")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("teacher") / "teacher.pt"
    network = VisionTransformer(vit_config("vit_test", image_px=28, width=96, heads=2))
    with torch.no_grad():  # the first weights are so small that all tokens are alike
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    torch.save(network.state_dict(), path)
    return path


STUDENTS = {
    f"distill__students__{name}__{key}": value
    for name, size in (("wide", {"width": 96, "depth": 1}), ("flat", {"width": 32, "depth": 1}))
    for key, value in {"name": "vit_test", **size, "attention_heads": 2}.items()
}


def words(run: Path, shards: Path, classes: Path, weights: Path, **changes: Any) -> list[str]:
    keys = {"objective__kind": "distill", "distill__teacher": weights, "model__drop_path": 0.0}
    keys |= {"schedule__total": f"{LAST} steps", "run__timeout_seconds": 120}
    return monitored(run, shards, classes, **{**keys, **STUDENTS, **changes})


@pytest.fixture(scope="module")
def whole(shards: Path, classes: Path, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("students") / "whole"
    run_ranks(words(run, shards, classes, weights), 2, timeout=PATIENCE_SECONDS)
    return run


def averages(run: Path, step: int, prefix: str) -> dict[str, Tensor]:
    state = tensors_of(RunFolder(run).checkpoint(step))
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def test_a_students_folder_is_read_like_a_run(whole: Path) -> None:
    for name, width in (("wide", 96), ("flat", 32)):
        student = RunFolder(whole).student(name)
        assert LAST in student.steps() and len(student.steps()) < 5
        stored = averages(whole, LAST, f"teacher.{name}/")
        read = averages(student.path, LAST, "teacher.")
        assert stored.keys() == read.keys() and len(read) > 10
        assert all(torch.equal(stored[key], read[key]) for key in read)
        scored = read_evaluations(student)
        assert [document.step for document in scored] == [0, 4, LAST]
        assert student.selected() is not None
        loaded = load_backbone(student.path).model
        assert (loaded.config.width, loaded.config.depth) == (width, 1)
        assert load_config(PretrainConfig, student.config).model.width == width
    own, other = (read_evaluations(RunFolder(whole).student(name)) for name in ("wide", "flat"))
    assert [one.values for one in own] != [one.values for one in other]


def test_the_first_student_does_not_notice_the_others(
    whole: Path, shards: Path, classes: Path, weights: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    run_ranks(
        [word for word in words(alone, shards, classes, weights) if "distill.students" not in word],
        2,
        timeout=PATIENCE_SECONDS,
    )
    for prefix in ("student.backbone.", "teacher.backbone.", "optimizer.backbone."):
        ours, theirs = averages(whole, LAST, prefix), averages(alone, LAST, prefix)
        assert ours.keys() == theirs.keys() and len(ours) > 10
        assert all(torch.equal(ours[name], theirs[name]) for name in ours), prefix
    for row, other in zip(metrics_of(whole), metrics_of(alone), strict=True):
        for name in ("cls_features", "patch_features", "knn"):
            assert row.get(name) == other.get(name), name


def test_a_killed_run_goes_on_with_the_same_bits(
    whole: Path, shards: Path, classes: Path, weights: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    ranks = start_ranks(words(killed, shards, classes, weights), 2)
    while not RunFolder(killed).student("flat").checkpoint(3).exists() and any(rank.code is None for rank in ranks):
        time.sleep(0.01)
    for rank in ranks:
        if rank.code is None:
            rank.signal(signal.SIGKILL)
    codes, said = finish(ranks, PATIENCE_SECONDS)
    assert -signal.SIGKILL in codes, said
    run_ranks(words(killed, shards, classes, weights), 2, timeout=PATIENCE_SECONDS)
    assert metrics_of(whole) == metrics_of(killed)
    ours, theirs = (tensors_of(RunFolder(run).checkpoint(LAST)) for run in (whole, killed))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    for name in ("wide", "flat"):
        one, other = (RunFolder(run).student(name) for run in (whole, killed))
        assert [document.values for document in read_evaluations(one)] == [d.values for d in read_evaluations(other)]


def config_of(tmp_path: Path, shards: Path, weights: Path, **changes: Any) -> PretrainConfig:
    keys = {"objective__kind": "distill", "distill__teacher": weights, "model__drop_path": 0.0}
    return load_config(PretrainConfig, None, words_of(tmp_path / "run", shards, **{**keys, **changes}))


def test_the_plan_counts_every_student_and_the_teacher_once(shards: Path, weights: Path, tmp_path: Path) -> None:
    both = requirements_of(config_of(tmp_path, shards, weights, **STUDENTS), 1, 1)
    plain = config_of(tmp_path, shards, weights)
    first = requirements_of(plain, 1, 1)
    config = config_of(tmp_path, shards, weights, **STUDENTS)
    others = [requirements_of(config.of_student(name), 1, 1) for name in config.distill.students]
    alone = [first, *others]
    assert len(alone) == 3
    assert both.parameters.anchor == first.parameters.anchor
    assert both.parameters.student == sum(one.parameters.student for one in alone)
    assert both.memory.activations == sum(one.memory.activations for one in alone)
    assert both.memory.optimizer == sum(one.memory.optimizer for one in alone)
    separate = sum(one.flops_per_image for one in alone)
    assert first.flops_per_image < both.flops_per_image < separate
    assert both.memory.peak < sum(one.memory.peak for one in alone)


def test_several_students_are_rehearsed_as_planned(shards: Path, weights: Path, tmp_path: Path) -> None:
    """Every rank enters the collectives that the plan counts, the teacher's once."""
    config = config_of(tmp_path, shards, weights, **STUDENTS)
    done = rehearse_rank(config, 0, 2, 2, torch.device("cpu"))
    numbers: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for collective in done.step_collectives:
        if collective.place.file != "pretrain/optimizer/clipping.py":  # the norms of gradients are a few numbers
            numbers[collective.kind] += 1
            sizes[collective.kind] += collective.bytes
    planned = traffic_of(config, objective_on_meta(config), 2, 2)
    assert {traffic.kind: traffic.number for traffic in planned} == numbers
    for traffic in planned:
        assert traffic.bytes == pytest.approx(sizes[traffic.kind], rel=0.02), traffic


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distill__students__Wide__name": "vit_test"}, "a student's name is that of a folder"),
        (
            {"distill__students__b__name": "vit_base_patch16", "model__image_px": 112},
            "patches of 16 px, model.name's are 14 px",
        ),
        ({"objective__kind": "dinov2", "distill__teacher": None, **STUDENTS}, "taught by distill.teacher"),
        ({"init__weights": "x.pt", **STUDENTS}, "begin with random weights"),
    ],
)
def test_what_cannot_be_is_said(
    changes: dict[str, Any], message: str, shards: Path, weights: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        config_of(tmp_path, shards, weights, **changes)


def test_students_are_part_of_what_a_run_began_with(whole: Path, shards: Path, classes: Path, weights: Path) -> None:
    said = run_ranks(words(whole, shards, classes, weights, distill__students__flat__width=48), 1, expect=2)
    assert "distill.students" in said
