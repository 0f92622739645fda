"""Figures of any block: chosen in the gallery, never by queries, and kept apart from a run's own history."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from eval_knn import EvalConfig
from eval_knn.__main__ import STAGE
from eval_knn.evaluator import Evaluator
from eval_knn.feature_choice import choose_in_gallery
from panendofm.atlas import GallerySplit
from panendofm.backbone import FeatureKind
from panendofm.backbone.networks import FeatureChoice, Reading, find_network
from panendofm.runtime.command_line import run_stage
from panendofm.runtime.errors import UserError


def test_the_gallery_chooses_and_the_queries_have_no_say() -> None:
    """One reading tells the classes apart in the gallery, one in the queries, one only knows near-duplicates."""
    random = np.random.default_rng(0)
    labels = np.tile(np.arange(3), 40)  # 120 images
    groups = np.repeat(np.arange(40), 3) + 40 * labels  # three near-identical images of a class
    groups = np.unique(groups, return_inverse=True)[1]
    gallery = np.arange(120) < 60
    sides = {"gallery": gallery, "queries": ~gallery}

    def telling(side: str) -> Any:
        return np.where(sides[side][:, None], np.eye(3)[labels] * 4, 0) + random.normal(0, 1, (120, 3))

    own_group = random.normal(0, 1, (int(groups.max()) + 1, 3))[groups] * 100
    features = torch.from_numpy(np.concatenate([telling("queries"), telling("gallery"), own_group], axis=1)).float()
    reading = Reading(
        FeatureKind(), tuple(FeatureChoice(name, i, i + 1, 3) for i, name in enumerate(("queries", "gallery", "group")))
    )
    split = GallerySplit(np.flatnonzero(gallery), np.flatnonzero(~gallery), groups, False, "")
    images = cast(Any, SimpleNamespace(labels=labels, class_names=["a", "b", "c"]))
    chosen = choose_in_gallery(reading, features, images, split, 10, EvalConfig())
    assert chosen.choice.name == "gallery" and chosen.tried["gallery"] > 0.8
    assert chosen.tried["queries"] < 0.6 and chosen.tried["group"] < 0.6
    # Whatever the queries are: the same choice by the same figures.
    features[~gallery] = torch.randn(60, 9)
    images.labels = np.where(gallery, labels, 0)
    assert choose_in_gallery(reading, features, images, split, 10, EvalConfig()) == chosen
    # Equals: the first, which is the last block.
    same = Reading(FeatureKind(), tuple(FeatureChoice(name, 1, 2, 3) for name in ("first", "second")))
    assert choose_in_gallery(same, features, images, split, 10, EvalConfig()).choice.name == "first"


def test_figures_of_a_block_are_those_of_its_tokens(config: EvalConfig, weights_file: Path, tmp_path: Path) -> None:
    config.cache = str(tmp_path / "cache")
    network = find_network(str(weights_file))
    own = Evaluator(config).score(network)
    assert own.document.features == "output" and not own.document.features_tried
    config.features.block, config.features.pooling = "1", "mean"
    evaluator = Evaluator(config)
    first = evaluator.score(network)
    module = network.load()
    images = torch.stack([network.preprocessing(evaluator.images[i]) for i in range(len(evaluator.images))])
    with torch.no_grad():
        tokens = module.intermediate(images, network.outputs.blocks)[0].patches.mean(1)  # type: ignore[operator]
    expected = torch.nn.functional.normalize(tokens, dim=1).numpy()
    np.testing.assert_allclose(first.features, expected, atol=1e-5)
    assert first.document.features == f"mean patch, block 1 of {network.outputs.blocks}"
    config.features.block = config.features.pooling = "auto"
    auto = Evaluator(config).score(network).document
    assert auto.features_tried[auto.features] == max(auto.features_tried.values())
    config.features.block, config.features.pooling = "last", "cls"
    again = Evaluator(config).score(network)
    np.testing.assert_array_equal(again.features, own.features)
    assert again.document.k == own.document.k
    config.split.leave_one_group_out, config.features.block = True, "auto"
    with pytest.raises(UserError, match="every image is a query"):
        Evaluator(config).score(network)


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def command(config: EvalConfig, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str]:
        keys = [
            f"data.path={config.data.path}",
            f"cache={config.cache}",
            f"out={config.out}",
            "bootstrap.replicates=20",
        ]
        with pytest.raises(SystemExit) as end:
            run_stage(STAGE, [*words, *keys])
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out + printed.err

    return run


def test_the_table_says_which_features(command: Run, config: EvalConfig, weights_file: Path) -> None:
    code, said = command(str(weights_file), "pixels", "features.block=auto", "features.pooling=auto")
    assert code == 0 and "pixels has no blocks to choose from" in said
    table = said[said.index("kNN on") :].splitlines()
    documents = [json.loads(path.read_text()) for path in Path(config.out or "").glob("*.json")]
    chosen = next(d for d in documents if d["checkpoint"] == "small")
    assert chosen["features"] in table[2] and "output" in table[3]
    assert "top-1 within the gallery" in said
    assert command(str(weights_file))[0] == 0
    assert len(list(Path(config.out or "").glob("*.json"))) == 3, "other blocks do not overwrite the own output's"
    for words, named in (
        (("pixels", "features.block=2"), "has no blocks"),
        (("pixels", "features.pooling=maen"), "features.pooling"),
        ((str(weights_file.parent), "watch=true", "features.block=2"), "watch=true compares checkpoints"),
    ):
        code, said = command(*words)
        assert code == 2 and named in said


def test_a_live_model_is_read_by_its_own_output(config: EvalConfig, small_network: torch.nn.Module) -> None:
    config.features = replace(config.features, block="1")
    with pytest.raises(UserError, match="own output"):
        Evaluator(config).score_model(small_network, "step_1")
