"""One release folder, and four packages that load it from its root: a repository for the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from backbone_cases import random_model, save_checkpoint

import panendofm
from panendofm.backbone import ensure_torchvision, vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.release import export_release

SIDE_PX = 56


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    save_checkpoint(random_model(vit_config("vit_test_patch14_reg4", image_px=SIDE_PX)), folder / "step_0000007")
    export_release(folder / "step_0000007", ExportConfig(str(folder / "release")))
    return folder / "release"


def test_four_packages_load_one_folder(release: Path) -> None:
    ensure_torchvision()
    import timm
    from transformers import AutoImageProcessor, AutoModel

    images = torch.rand(2, 3, SIDE_PX, SIDE_PX)
    with torch.no_grad():
        ours = panendofm.load_backbone(release).model(images).cls  # [B, D]
        of_timm = timm.create_model(f"local-dir:{release}", pretrained=True).eval().forward_features(images)[:, 0]
        of_transformers = AutoModel.from_pretrained(release).eval()(pixel_values=images).last_hidden_state[:, 0]
    session = onnxruntime.InferenceSession(release / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])
    of_onnx = torch.from_numpy(session.run(["cls"], {"images": images.numpy()})[0])
    for theirs in (of_timm, of_transformers, of_onnx):
        np.testing.assert_allclose(theirs.numpy(), ours.numpy(), atol=1e-4)
    processor = AutoImageProcessor.from_pretrained(release)
    assert processor.crop_size["height"] == panendofm.load_backbone(release).preprocessing.crop_px


def test_a_release_without_timm_still_has_its_root(tmp_path: Path, release: Path) -> None:
    ensure_torchvision()
    from transformers import AutoModel

    only = ExportConfig(str(tmp_path / "only"), formats=["transformers"])
    export_release(release, only)
    assert not (tmp_path / "only" / "model.safetensors").exists()
    images = torch.rand(1, 3, SIDE_PX, SIDE_PX)
    with torch.no_grad():
        theirs = AutoModel.from_pretrained(tmp_path / "only").eval()(pixel_values=images).last_hidden_state[:, 0]
        ours = panendofm.load_backbone(release).model(images).cls
    np.testing.assert_allclose(theirs.numpy(), ours.numpy(), atol=1e-4)
