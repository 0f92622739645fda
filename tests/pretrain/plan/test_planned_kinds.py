"""Plans and rehearsals of what is no plain DINOv2: distillations before their teacher is there, instance training."""

from __future__ import annotations

import pytest
import torch

from panendofm.runtime.config import CONFIGS, load_config
from panendofm.runtime.errors import UserError
from pretrain.config import PretrainConfig
from pretrain.distill_teacher import planned_teacher_form
from pretrain.plan.requirements import requirements_of
from pretrain.rehearsal.fake_run import rehearse_rank

TINY = (
    *("run.dir=x", "data.shards=y", "augment.global_px=28", "augment.local_crops=0", "model.name=vit_test"),
    *("model.image_px=28", "model.depth=1", "batch.images=8", "batch.microgroup_images=2", "objective.kind=instance"),
)


def config_of(*words: str) -> PretrainConfig:
    file = CONFIGS / "pretrain" / "distill_vits14.yaml"
    return load_config(PretrainConfig, file, ["run.dir=x", "data.shards=y", *words])


# Peaks of torch's own allocator: `python -m benchmarks.rehearsal shipped`, torch 2.15.0.
@pytest.mark.parametrize(("ranks", "measured"), [(32, 13.67e9), (8, 51.19e9)])
def test_a_distillation_is_planned_before_its_teacher_is_trained(ranks: int, measured: float) -> None:
    """Its targets are those of all patches, which are most of what it takes."""
    planned = requirements_of(config_of(), ranks, 8).memory.peak
    assert planned == pytest.approx(measured, rel=0.05)


def test_only_a_run_with_the_name_of_a_shipped_config_is_taken_for_granted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    form = planned_teacher_form(config_of())
    assert form is not None and form.network.width == 1024 and form.ibot_head is not None
    assert form.ibot_head.prototypes == 131_072
    by_features = planned_teacher_form(config_of("distill.loss=features"))
    assert by_features is not None and not by_features.has_heads
    with pytest.raises(UserError, match="does not exist"):
        planned_teacher_form(config_of("distill.teacher=runs/of-my-own"))


def test_instance_training_is_rehearsed_without_local_crops_and_masks() -> None:
    """Nothing is masked, so the mask token has no gradient; nothing of the local crops travels."""
    config = load_config(PretrainConfig, None, list(TINY))
    done = rehearse_rank(config, 0, 2, 2, torch.device("cpu"))
    assert done.step_collectives


def test_a_user_error_of_a_rehearsal_is_no_fault_of_the_code() -> None:
    config = load_config(PretrainConfig, None, [*TINY, "execution.attention=varlen"])
    with pytest.raises(UserError, match="attention=varlen can't run on cpu"):
        rehearse_rank(config, 0, 2, 2, torch.device("cpu"))
