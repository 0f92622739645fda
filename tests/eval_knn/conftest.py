"""A small labeled set and small weights for the tests of eval_knn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from knn_images import CLASSES, PER_CLASS, paint

from eval_knn.config import EvalConfig
from panendofm.backbone import VisionTransformer, vit_config


@pytest.fixture(scope="session")
def labeled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("labelled")
    for label, name in enumerate(CLASSES):
        (root / name).mkdir()
        for number in range(PER_CLASS):
            paint(label, number).save(root / name / f"{number:02d}.png")
    return root


@pytest.fixture(scope="session")
def knn_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def config(labeled_folder: Path, knn_cache: Path, tmp_path: Path) -> EvalConfig:
    config = EvalConfig()
    config.data.path, config.cache, config.out = str(labeled_folder), str(knn_cache), str(tmp_path / "out")
    config.bootstrap.replicates = 100
    config.data.clean = False  # looking for text takes longer than all else; tests that need it switch it on
    return config


@pytest.fixture(scope="session")
def small_network() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(vit_config("vit_test")).eval()


@pytest.fixture(scope="session")
def weights_file(small_network: VisionTransformer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "small.pt"
    torch.save(small_network.state_dict(), path)
    return path
