"""Instance classification: the loss is torch's cross-entropy, and runs are exact as those of any objective."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of

from panendofm.backbone import VisionTransformer, load_backbone, vit_config
from panendofm.runtime.config import load_config
from pretrain import PretrainConfig
from pretrain.data.batch import Batch, make_batch
from pretrain.data.loader import RankBatches, order_of, shards_of
from pretrain.data.order.batch_sampler import BatchSampler
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.instance import HEAD, InstanceObjective
from pretrain.plan.requirements import requirements_of

IMAGES = 50
INSTANCE = {"objective__kind": "instance"}


def batch_of(rows: list[int]) -> Batch:
    torch.manual_seed(1)
    count = len(rows)
    batch = make_batch(
        torch.randn(2 * count, 3, 28, 28), torch.randn(count, 3, 14, 14), torch.zeros(2 * count, 4).bool()
    )
    batch.rows = torch.tensor(rows)
    return batch


def objective_of(**changes: float) -> InstanceObjective:
    torch.manual_seed(0)
    config = ObjectiveConfig(kind="instance", **changes)  # type: ignore[arg-type]
    objective = InstanceObjective(vit_config("vit_test", image_px=28), config, images=IMAGES)
    with torch.no_grad():
        objective.student[HEAD].classifier.weight.normal_(std=0.1)
        objective.student[HEAD].classifier.bias.normal_()
    return objective


def expected(objective: InstanceObjective, batch: Batch, classes: list[int]) -> torch.Tensor:
    """By torch's own functions, crop by crop."""
    backbone = objective.student["backbone"]
    assert isinstance(backbone, VisionTransformer) and batch.rows is not None
    losses = []
    for crops in (*batch.global_crops.chunk(2), batch.local_crops):
        x = backbone(crops).cls
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        head = objective.student[HEAD].classifier
        scores = x @ head.weight[classes].T + head.bias[classes]
        target = torch.tensor([classes.index(int(row)) for row in batch.rows])
        losses.append(F.cross_entropy(scores, target, label_smoothing=objective.config.label_smoothing))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_torchs_cross_entropy(smoothing: float) -> None:
    objective, batch = objective_of(label_smoothing=smoothing), batch_of([4, 49, 0])
    losses = objective(batch, 0.07)
    assert losses.keys() == {"instance", "total"}
    assert float(losses["total"]) == pytest.approx(float(expected(objective, batch, list(range(IMAGES)))), rel=1e-6)


def test_a_sample_of_the_classes_is_a_softmax_over_it() -> None:
    objective, batch = objective_of(), batch_of([4, 49, 0])
    batch.classes = torch.tensor([0, 3, 4, 17, 49])
    assert float(objective(batch, 0.07)["total"]) == pytest.approx(
        float(expected(objective, batch, [0, 3, 4, 17, 49])), rel=1e-6
    )


def test_it_learns_to_tell_images_apart() -> None:
    objective, batch = objective_of(label_smoothing=0.0), batch_of([4, 49, 0, 7])
    optimizer = torch.optim.AdamW(objective.student.parameters(), lr=3e-3)
    for _ in range(30):
        optimizer.zero_grad()
        loss = objective(batch, 0.07)["total"]
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.5 * np.log(IMAGES)


def test_the_anchor_holds_this_objective_too() -> None:
    objective = objective_of(feature_weight=2.0)
    with torch.no_grad():
        objective.student["backbone"].norm.bias += 0.5
    losses = objective(batch_of([1, 2]), 0.07)
    assert losses.keys() == {"instance", "features", "total"} and float(losses["features"]) > 0


def test_the_classes_of_a_step_are_those_of_its_batch_and_the_same_on_all_ranks(shards: Path) -> None:
    words = words_of(Path("unused"), shards, **INSTANCE, objective__sampled_classes=20)
    config = load_config(PretrainConfig, None, words)
    held = shards_of(config.data)
    order = order_of(config.data, config.batch, config.run.seed, held)
    batches = RankBatches(held, order, config.augment, config.masks, 14, 4, 0, config.objective.sampled_from(len(held)))
    found = []
    for rank in range(2):
        request = next(iter(BatchSampler(order, config.batch, rank, 2, range(3, 4))))
        loaded = batches[request]
        assert loaded.batch.rows.tolist() == request.rows.tolist()
        found.append(loaded.batch.classes.numpy())
    np.testing.assert_array_equal(found[0], found[1])
    assert set(order.batch(3).rows.tolist()) <= set(found[0].tolist())
    assert 20 < len(found[0]) <= 20 + config.batch.images < len(held)
    assert config.objective.sampled_from(20) is None


@pytest.fixture(scope="module")
def whole(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("instance") / "whole"
    run_ranks(words_of(run, shards, **INSTANCE, model__trainable="last:1"), 2)
    return run


def test_a_run_is_exact(whole: Path, shards: Path, tmp_path: Path) -> None:
    losses = [row["instance"] for row in metrics_of(whole)]
    assert losses[0] == pytest.approx(np.log(120), abs=1e-3)  # nothing is known of 120 images yet
    assert losses[-1] != losses[0]
    stopped = tmp_path / "stopped"
    for stop in ("5 steps", None):
        run_ranks(words_of(stopped, shards, **INSTANCE, model__trainable="last:1", run__stop_at=stop), 2)
    assert_same_run(whole, stopped, 12)
    alone = tmp_path / "alone"
    run_ranks(words_of(alone, shards, **INSTANCE, model__trainable="last:1"), 1)
    assert [row["instance"] for row in metrics_of(alone)] == pytest.approx(losses, rel=1e-5)
    assert load_backbone(whole).model.config.depth == 2  # the teacher, as any run's


def test_the_plan_counts_the_head(shards: Path) -> None:
    config = load_config(PretrainConfig, None, words_of(Path("unused"), shards, **INSTANCE))
    small, large = (requirements_of(config, 1, 1, corpus_images=images) for images in (1000, 2000))
    assert small.parameters.heads == {HEAD: 1000 * (config.model.vit().width + 1)}
    assert large.memory.optimizer - small.memory.optimizer == 8 * 1000 * (config.model.vit().width + 1)
    assert large.memory.heads == 2 * small.memory.heads and large.flops_per_image > small.flops_per_image
