"""Distillation: the losses by their definition, a teacher that never moves, and runs that are exact."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from distill_reference import (
    DINO,
    IBOT,
    LARGE,
    TEMPERATURE,
    batch_of,
    feature_losses,
    objective_of,
    prototype_losses,
)
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of
from rank_scenarios import run_on_ranks

from panendofm.backbone import VisionTransformer, load_backbone, read_tensors, vit_config
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig
from pretrain.distill_teacher import teacher_form
from pretrain.objective.config import HeadConfig
from pretrain.objective.distillation.objective import TeacherForm
from pretrain.plan.requirements import requirements_of

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "pretrain"
B = 3


@pytest.mark.parametrize("ibot_head", [IBOT, None])
def test_prototypes_are_matched_on_every_token(ibot_head: HeadConfig | None) -> None:
    objective, given = objective_of(TeacherForm(LARGE, DINO, ibot_head)), batch_of(B)
    losses = objective(given, TEMPERATURE)
    patch_head = "dino_head" if ibot_head is None else "ibot_head"
    expected = prototype_losses(objective, objective.student, given, patch_head)
    for name, value in expected.items():
        assert losses[name].item() == pytest.approx(value, rel=1e-6), name
    assert float(losses["total"].detach()) == pytest.approx(sum(expected.values()), rel=1e-6)


def test_features_are_regressed_in_units_of_their_variance() -> None:
    objective, given = objective_of(TeacherForm(LARGE)), batch_of(B)
    losses = objective(given, TEMPERATURE)
    expected = feature_losses(objective, objective.student, given)
    assert losses.keys() == {*expected, "total"}
    for name, value in expected.items():
        assert losses[name].item() == pytest.approx(value, rel=1e-6), name


def test_two_ranks_agree_with_the_definition(golden: Path, tmp_path: Path) -> None:
    """Targets and variances are those of the whole batch, of which each rank has a half."""
    forms = {"distilled_by_prototypes": TeacherForm(LARGE, DINO, IBOT), "distilled_by_features": TeacherForm(LARGE)}
    ranks = run_on_ranks(2, list(forms), golden, tmp_path)
    for scenario, form in forms.items():
        objective, given = objective_of(form), batch_of(2 * B)
        if form.has_heads:
            expected = prototype_losses(objective, objective.student, given, "ibot_head")
        else:
            expected = feature_losses(objective, objective.student, given)
        for name, value in expected.items():
            mean = sum(rank[scenario][name] for rank in ranks) / 2
            assert mean == pytest.approx(value, rel=1e-6), (scenario, name)


def test_a_common_vector_of_the_teacher_does_not_matter() -> None:
    objective, given = objective_of(TeacherForm(LARGE)), batch_of(B)
    before = objective(given, 0.07)["total"]
    (of_before,) = torch.autograd.grad(before, [objective.student["cls_projection"].weight])
    with torch.no_grad():
        objective.distill_teacher["backbone"].norm.bias.add_(30)
    after = objective(given, 0.07)["total"]
    (of_after,) = torch.autograd.grad(after, [objective.student["cls_projection"].weight])
    assert float(after.detach()) == pytest.approx(float(before.detach()), rel=1e-4)
    torch.testing.assert_close(of_after, of_before, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("form", [TeacherForm(LARGE, DINO, IBOT), TeacherForm(LARGE)])
def test_the_student_learns_and_the_teacher_stays(form: TeacherForm) -> None:
    objective, given = objective_of(form), batch_of(B)
    before = {name: tensor.clone() for name, tensor in objective.distill_teacher.state_dict().items()}
    optimizer = torch.optim.AdamW(objective.student.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = objective(given, 0.07)["total"]
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]
    for name, tensor in objective.distill_teacher.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(parameter.grad is None for parameter in objective.distill_teacher.parameters())


@pytest.fixture(scope="module")
def teacher_run(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with heads, wider than its student will be."""
    run = tmp_path_factory.mktemp("distill") / "teacher"
    run_ranks(words_of(run, shards, model__width=64, model__attention_heads=4, schedule__total="3 steps"), 1)
    return run


def distill_words(run: Path, shards: Path, teacher: Path, **changes: object) -> list[str]:
    keys = {"objective__kind": "distill", "distill__teacher": teacher, "model__drop_path": 0.0}
    return words_of(run, shards, **{**keys, **changes})


def test_a_run_is_exact(teacher_run: Path, shards: Path, tmp_path: Path) -> None:
    whole, stopped, alone = tmp_path / "whole", tmp_path / "stopped", tmp_path / "alone"
    run_ranks(distill_words(whole, shards, teacher_run), 2)
    for stop in ("5 steps", None):
        run_ranks(distill_words(stopped, shards, teacher_run, run__stop_at=stop), 2)
    assert_same_run(whole, stopped, 12)
    run_ranks(distill_words(alone, shards, teacher_run), 1)
    losses = [row["ibot"] for row in metrics_of(whole)]
    assert [row["ibot"] for row in metrics_of(alone)] == pytest.approx(losses, rel=1e-5)
    assert losses[-1] < losses[0]
    stored = read_tensors(RunFolder(whole).checkpoint(12), "distill_teacher.")
    given = read_tensors(RunFolder(teacher_run).checkpoint(3), "teacher.")
    assert stored.keys() == given.keys()
    assert all(torch.equal(stored[name], given[name]) for name in given)
    exported = load_backbone(whole).model.config
    assert exported.width < load_backbone(teacher_run).model.config.width


def test_weights_without_heads_are_regressed(shards: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights = tmp_path / "teacher.pt"
    torch.save(VisionTransformer(vit_config("vit_test", image_px=28, width=96, heads=2)).state_dict(), weights)
    run_ranks(distill_words(tmp_path / "run", shards, weights), 1)
    rows = metrics_of(tmp_path / "run")
    assert rows[-1]["cls_features"] < rows[0]["cls_features"]
    assert "ibot" not in rows[0]


def test_heads_are_trained_on_a_frozen_teacher_first(shards: Path, tmp_path: Path) -> None:
    """As configs/pretrain/distill_heads.yaml does it: the backbone stays as it is, and its run then has prototypes."""
    recipe = yaml.safe_load((CONFIGS / "distill_heads.yaml").read_text())
    assert recipe["warm_start"]["heads"] == recipe["schedule"]["total"]
    torch.manual_seed(0)
    backbone = VisionTransformer(vit_config("vit_test", image_px=28, depth=2))
    torch.save(backbone.state_dict(), tmp_path / "weights.pt")
    keys = {f"warm_start__{name}": value for name, value in recipe["warm_start"].items()}
    keys |= {"warm_start__heads": "6 steps", "schedule__total": "6 steps", "schedule__warmup": "0 steps"}
    heads = tmp_path / "heads"
    run_ranks(words_of(heads, shards, init__weights=tmp_path / "weights.pt", model__drop_path=0.0, **keys), 1)
    for role in ("teacher", "student"):
        stored = read_tensors(RunFolder(heads).checkpoint(6), f"{role}.backbone.")
        given = {name: tensor for name, tensor in backbone.state_dict().items() if name != "mask_token"}
        assert all(torch.equal(stored[name], tensor) for name, tensor in given.items()), role
    losses = [row["total"] for row in metrics_of(heads)]
    assert losses[-1] < losses[0]
    run_ranks(distill_words(tmp_path / "run", shards, heads, schedule__total="3 steps"), 1)
    assert "ibot" in metrics_of(tmp_path / "run")[0]


def test_the_plan_counts_the_teacher(teacher_run: Path, shards: Path, tmp_path: Path) -> None:
    config = load_config(PretrainConfig, None, distill_words(tmp_path / "run", shards, teacher_run))
    needs = requirements_of(config, 1, 1)
    teacher = sum(tensor.numel() for tensor in read_tensors(RunFolder(teacher_run).checkpoint(3), "teacher.").values())
    assert needs.parameters.anchor == teacher
    plain = load_config(PretrainConfig, None, words_of(tmp_path / "run", shards, model__drop_path=0.0))
    assert needs.flops_per_image > requirements_of(plain, 1, 1).flops_per_image


def test_kind_and_teacher_belong_together(shards: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="belong together"):
        load_config(PretrainConfig, None, words_of(tmp_path, shards, objective__kind="distill"))


def test_patches_of_another_size_are_refused(shards: Path, tmp_path: Path) -> None:
    weights = tmp_path / "teacher.pt"
    torch.save(VisionTransformer(vit_config("vit_tiny_patch16", image_px=32, depth=1)).state_dict(), weights)
    with pytest.raises(UserError, match=r"patches of 16 px, the student's have 14 px"):
        teacher_form(load_config(PretrainConfig, None, distill_words(tmp_path / "run", shards, weights)))
