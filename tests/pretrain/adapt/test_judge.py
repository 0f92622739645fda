"""What judges an adaptation: hits of neighbors and of a probe, their difference, and the verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from panendofm.backbone import vit_config, vit_names
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig
from pretrain.adapt.config import AdaptConfig
from pretrain.adapt.judge import Difference, difference, probe_hits
from pretrain.adapt.model_words import model_words
from pretrain.adapt.prediction import predict, uniformity
from pretrain.adapt.verdict import verdict_of


def test_a_probe_never_learns_from_a_near_duplicate() -> None:
    """Labels are noise, and every image has a twin: whoever learns from the twin finds it, whoever may not, guesses."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 120)).repeat(2, axis=0).astype(np.float32)
    labels = rng.integers(2, size=60).repeat(2)
    assert probe_hits(features, labels, np.arange(60).repeat(2)).mean() < 0.65
    assert probe_hits(features, labels, np.arange(120)).mean() > 0.8


def test_the_scale_of_a_feature_does_not_matter_to_the_probe() -> None:
    rng = np.random.default_rng(1)
    labels = np.arange(90) % 3
    features = (rng.normal(size=(90, 5)) + labels[:, None]).astype(np.float32)
    scaled = features * np.array([1, 1e3, 1, 1e-2, 1], np.float32) + 7
    groups = np.arange(90)
    hits = probe_hits(features, labels, groups)
    assert 0.5 < hits.mean() < 1
    assert (probe_hits(scaled, labels, groups) == hits).mean() > 0.97


def test_the_interval_draws_whole_groups() -> None:
    """One group of 50 images that all change sides: its interval must be wide; 50 lone images: narrow."""
    before = np.zeros(100, bool)
    after = np.arange(100) < 50
    lone = difference(after, before, np.arange(100))
    grouped = difference(after, before, np.where(np.arange(100) < 50, 0, np.arange(100)))
    assert lone.value == grouped.value == 0.5
    assert lone.high - lone.low < 0.25
    assert grouped.high - grouped.low > 0.5


@pytest.mark.parametrize(
    ("knn", "probe", "outcome"),
    [
        ((0.02, 0.01, 0.03), (0.0, -0.01, 0.01), "better"),
        ((0.0, -0.01, 0.01), (0.02, 0.001, 0.03), "better"),
        ((0.02, 0.01, 0.03), (-0.02, -0.03, -0.01), "worse"),
        ((0.02, -0.01, 0.05), (0.01, -0.02, 0.04), "no difference"),
        ((-0.05, -0.07, -0.02), (0.0, -0.01, 0.01), "worse"),
    ],
)
def test_one_gain_is_enough_and_one_loss_too_much(
    knn: tuple[float, float, float], probe: tuple[float, float, float], outcome: str
) -> None:
    assert verdict_of(Difference(*knn), Difference(*probe)) == outcome


@pytest.mark.parametrize("name", vit_names())
def test_pretrain_builds_the_architecture_of_the_weights(name: str) -> None:
    vit = replace(vit_config(name), width=vit_config(name).heads * 8, depth=3, image_px=vit_config(name).patch_px * 5)
    words = [*model_words(vit), "model.drop_path=0", "run.dir=x", "data.shards=x"]
    assert load_config(PretrainConfig, None, words).model.vit() == replace(vit, drop_path=0.0)


def test_an_architecture_that_pretrain_lacks_is_named() -> None:
    with pytest.raises(UserError, match=r"weights: adapt can't train the architecture .*reg2"):
        model_words(replace(vit_config("vit_small_patch14"), registers=2))


def test_length_follows_the_number_of_images() -> None:
    config = AdaptConfig(images="i", weights="w", labeled="l", out="o")
    assert config.presentations_for(100) == 30_000
    assert config.presentations_for(5_000) == 80_000
    assert config.presentations_for(10**6) == 400_000
    assert replace(config, presentations=640).presentations_for(5_000) == 640


def test_four_blocks_train_or_all_of_a_shallow_network() -> None:
    config = AdaptConfig("images", "weights", "labeled", "out")
    assert (config.trainable_for(12), config.trainable_for(3)) == ("last:4", "last:3")
    config.trainable = "lora:16"
    assert config.trainable_for(12) == "lora:16"


def test_one_common_vector_leaves_room() -> None:
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(500, 32)).astype(np.float32)
    common = spread * np.float32(0.05) + 1
    assert not predict(spread).likely
    assert predict(common).likely
    assert predict(common).common_share > 0.99
    assert uniformity(common) > uniformity(spread)


def test_uniformity_is_the_mean_potential_of_pairs() -> None:
    """Two opposite points: a pair of different rows is at distance 2 or 0."""
    points = np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32)
    assert uniformity(points) == pytest.approx(-8.0)
