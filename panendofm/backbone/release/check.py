"""Loads each export back with the package that it is meant for, and compares features on photographs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from panendofm.backbone.release.formats import Export
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.backbone.weights.load import load_backbone
from panendofm.imaging.images import open_image
from panendofm.records.release import ReleaseFolder
from panendofm.runtime.errors import UserError

TOLERANCE = 1e-5
# onnxruntime fuses operations in its own way.
ONNX_TOLERANCE = 1e-4


def photographs(paths: list[Path]) -> list[Image.Image]:
    """The given images, else two photographs that come with scikit-learn: real images on every machine."""
    if paths:
        return [open_image(path) for path in paths]
    from sklearn.datasets import load_sample_images

    return [Image.fromarray(pixels) for pixels in load_sample_images().images]


def check_format(kind: str, folder: ReleaseFolder, export: Export, images: list[Image.Image]) -> dict[str, float]:
    """Largest relative differences between the export and our model, or a `UserError` when they are too large.

    `at_<n>px`: on n-pixel images, at the pre-processing's size and that of the stored position grid. The ONNX graph is
    tried on images that are no square, too. Without registers, timm and transformers interpolate positions otherwise
    than DINOv2: at another size than the grid's their difference is only measured.
    """
    features = _LOADERS[kind](folder, export)
    native, crop, patch = export.config.image_px, export.preprocessing.crop_px, export.config.patch_px
    batches = {}
    for side in sorted({native, crop}):
        batches[f"at_{side}px"] = torch.stack(
            [replace(export.preprocessing, resize_px=side, crop_px=side)(image) for image in images]
        )
    if kind == "onnx":
        batches[f"at_{crop}x{crop - patch}px"] = batches[f"at_{crop}px"][:, :, :-patch]
    differences = {}
    for place, batch in batches.items():
        with torch.no_grad():
            tokens = export.model(batch)
            ours = torch.cat([tokens.cls[:, None], tokens.patches], dim=1)  # [B, 1 + N, D]
            theirs = features(batch)
        differences[place] = float((ours - theirs).abs().max() / ours.abs().max())
    interpolates_alike = kind in ("onnx", "hub") or export.config.registers > 0
    decisive = list(differences) if interpolates_alike else [f"at_{native}px"]
    tolerance = ONNX_TOLERANCE if kind == "onnx" else TOLERANCE
    for place in decisive:
        if not differences[place] < tolerance:  # also refuses NaN
            raise UserError(
                f"the {kind} export gives other features than the backbone it was made from (largest relative "
                f"difference {differences[place]:.1e} {place.replace('at_', 'at ')}, allowed {tolerance:.0e}); nothing "
                "was written, please report this."
            )
    return differences


def _hub(folder: ReleaseFolder, export: Export) -> Callable[[Tensor], Tensor]:
    model = load_backbone(folder.weights("hub")).model

    def features(images: Tensor) -> Tensor:
        tokens = model(images)
        return torch.cat([tokens.cls[:, None], tokens.patches], dim=1)

    return features


def _timm(folder: ReleaseFolder, export: Export) -> Callable[[Tensor], Tensor]:
    ensure_torchvision()
    import timm

    model = timm.create_model(f"local-dir:{folder.path}", pretrained=True).eval()
    return lambda images: _without_registers(model.forward_features(images), export)


def _transformers(folder: ReleaseFolder, export: Export) -> Callable[[Tensor], Tensor]:
    ensure_torchvision()
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    model: Any
    model, report = AutoModel.from_pretrained(folder.path, dtype=torch.float32, output_loading_info=True)
    wrong = [name for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in report[kind]]
    if wrong:
        raise UserError(f"the transformers export does not load: {', '.join(map(str, wrong[:3]))}; please report this.")
    model.eval()
    return lambda images: _without_registers(model(pixel_values=images).last_hidden_state, export)


def _onnx(folder: ReleaseFolder, export: Export) -> Callable[[Tensor], Tensor]:
    import onnxruntime

    session = onnxruntime.InferenceSession(folder.weights("onnx"), providers=["CPUExecutionProvider"])

    def features(images: Tensor) -> Tensor:
        # One by one and together: the batch size must be free.
        single = [session.run(None, {"images": image[None].numpy()}) for image in images]
        together = session.run(None, {"images": images.numpy()})
        cls, patches = (np.concatenate([s[i] for s in single] + [together[i]]) for i in (0, 1))
        both = torch.cat([torch.from_numpy(cls)[:, None], torch.from_numpy(patches)], dim=1)
        first, second = both.chunk(2)
        return torch.where((first - second).abs() < ONNX_TOLERANCE * first.abs().max(), second, torch.nan)

    return features


def _without_registers(tokens: Tensor, export: Export) -> Tensor:
    return torch.cat([tokens[:, :1], tokens[:, 1 + export.config.registers :]], dim=1)


_LOADERS: dict[str, Callable[[ReleaseFolder, Export], Callable[[Tensor], Tensor]]] = {
    "hub": _hub,
    "timm": _timm,
    "transformers": _transformers,
    "onnx": _onnx,
}
