"""The ONNX graph takes images of any size: its positions are those of torch's own interpolation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

from panendofm.backbone import Preprocessing, VisionTransformer, ViTConfig, vit_config
from panendofm.backbone.release import Export
from panendofm.backbone.release.any_size import resampling_matrix
from panendofm.backbone.release.formats import write_onnx
from panendofm.records.release import ReleaseFolder

SIZES = [(56, 56), (126, 126), (224, 140), (42, 98), (252, 252)]  # 126: the stored grid
FORMS = {
    "offset": vit_config("vit_test", image_px=126, depth=2),
    "antialias": replace(vit_config("vit_small_patch14_reg4"), image_px=126, depth=2, width=64, heads=4),
    "swiglu": replace(vit_config("vit_giant_patch14"), image_px=126, depth=2, width=64, heads=4),
}


@pytest.mark.parametrize(("offset", "antialias"), [(0.1, False), (0.0, True), (0.0, False)])
@pytest.mark.parametrize(("side", "size"), [(37, 16), (37, 50), (37, 6), (5, 3), (4, 9), (16, 37)])
def test_the_matrix_is_torchs_interpolation(side: int, size: int, offset: float, antialias: bool) -> None:
    torch.manual_seed(0)
    grid = torch.randn(1, 3, side, side)
    scale = (size + offset) / side
    expected = F.interpolate(
        grid,
        size=None if offset else (size, size),
        scale_factor=(scale, scale) if offset else None,
        mode="bicubic",
        antialias=antialias,
    )
    matrix = resampling_matrix(size, side, offset, antialias)
    ours = torch.einsum("rs,bdst,ct->bdrc", matrix, grid, matrix)
    assert float((ours - expected).abs().max()) < 3e-5


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_five_sizes_and_any_batch(form: ViTConfig, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = VisionTransformer(form).eval()
    with torch.no_grad():  # the first weights are so small that positions would not show
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    folder = ReleaseFolder(tmp_path)
    write_onnx(Export(model, Preprocessing().at_crop(56), "float32"), folder)
    session = onnxruntime.InferenceSession(folder.weights("onnx"), providers=["CPUExecutionProvider"])
    for number, (height, width) in enumerate(SIZES, 1):
        images = torch.randn(number, 3, height, width)
        with torch.no_grad():
            tokens = model(images)
        cls, patches = session.run(None, {"images": images.numpy()})
        for ours, theirs in ((tokens.cls, cls), (tokens.patches, patches)):
            assert np.abs(ours.numpy() - theirs).max() < 1e-5 * float(ours.abs().max()), (height, width)
