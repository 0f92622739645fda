"""Weights out: one function for each format, and how to load what it wrote."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from panendofm.backbone.config import ViTConfig
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.release.any_size import AnySize
from panendofm.backbone.vit import VisionTransformer
from panendofm.backbone.weights.foreign import (
    timm_arguments,
    timm_name,
    to_official,
    to_timm,
    to_transformers,
    transformers_config,
)
from panendofm.backbone.weights.load import HEADER_KEY, weights_checksum
from panendofm.records.release import ReleaseFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_json

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
ONNX_OPSET = 17
# Pillow's numbers, which transformers writes into its files.
_RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}


@dataclass(frozen=True)
class Export:
    """What is written: a backbone whose values are already rounded to `dtype`, and its pre-processing."""

    model: VisionTransformer
    preprocessing: Preprocessing
    dtype: str  # a key of DTYPES
    certificate_sha256: str | None = None

    @property
    def config(self) -> ViTConfig:
        return self.model.config

    def values_sha256(self, tensors: dict[str, Tensor]) -> str:
        """The checksum that loading a file of these tensors, in any format, gives."""
        return weights_checksum(replace(self.config, drop_path=0.0), to_official(tensors))

    def header(self, tensors: dict[str, Tensor]) -> dict[str, str]:
        """Text metadata of a safetensors file of these tensors; "format" is what transformers looks for."""
        ours = {
            # Drop path belongs to a training, not to released weights.
            "vit": replace(self.config, drop_path=0.0).to_dict(),
            "preprocessing": self.preprocessing.to_dict(),
            "weights_sha256": self.values_sha256(tensors),
            "certificate_sha256": self.certificate_sha256,
        }
        return {"format": "pt", HEADER_KEY: json.dumps(ours, sort_keys=True)}


def rounded(model: VisionTransformer, dtype: str) -> VisionTransformer:
    """A float32 copy whose values are those that a file of `dtype` can hold."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.copy_(parameter.to(DTYPES[dtype]))
    return twin.eval()


def with_position_grid(model: VisionTransformer, image_px: int) -> VisionTransformer:
    """A copy whose stored positions are those that this model uses for square images of `image_px`."""
    config = model.config
    if image_px % config.patch_px:
        raise UserError(f"image_px={image_px} is not a multiple of the patch size {config.patch_px}; choose another.")
    side = image_px // config.patch_px
    with torch.device("meta"):
        twin = VisionTransformer(replace(config, image_px=image_px))
    with torch.no_grad():
        state = {**model.state_dict(), "pos_embed": model._positions(side, side).clone()}
    twin.load_state_dict(state, strict=True, assign=True)
    return twin.eval()


def _save(state: dict[str, Tensor], path: Path, export: Export) -> None:
    tensors = {name: t.detach().to(DTYPES[export.dtype]).contiguous() for name, t in state.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    content = memoryview(save(tensors, export.header(tensors)))
    length = int.from_bytes(content[:8], "little")
    # The library writes the metadata in an order that differs from run to run: equal weights must give equal files.
    header = json.dumps(json.loads(bytes(content[8 : 8 + length])), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little"))
        stream.write(header)
        stream.write(content[8 + length :])


def write_hub(export: Export, folder: ReleaseFolder) -> None:
    """The official names: what torch.hub's facebookresearch/dinov2 models and our own load."""
    _save(export.model.state_dict(), folder.weights("hub"), export)


def write_timm(export: Export, folder: ReleaseFolder) -> None:
    """Weights beside the release's config.json: `timm.create_model("local-dir:…")` reads them, and "hf-hub:…"."""
    _save(to_timm(export.model.state_dict()), folder.weights("timm"), export)


def timm_config(export: Export) -> dict[str, object]:
    preprocessing = export.preprocessing
    return {
        "architecture": timm_name(export.config),
        "num_classes": 0,
        "num_features": export.config.width,
        "model_args": timm_arguments(export.config),
        "pretrained_cfg": {
            "num_classes": 0,
            "input_size": [3, preprocessing.crop_px, preprocessing.crop_px],
            "fixed_input_size": False,
            "interpolation": preprocessing.interpolation,
            "crop_pct": preprocessing.crop_px / preprocessing.resize_px,
            "crop_mode": "center",
            "mean": list(preprocessing.mean),
            "std": list(preprocessing.std),
            "first_conv": "patch_embed.proj",
            "classifier": "head",
        },
    }


def write_root(export: Export, folder: ReleaseFolder, kinds: Sequence[str]) -> None:
    """What makes the release as a whole a repository for timm and transformers: one config that both understand."""
    content: dict[str, object] = timm_config(export) if "timm" in kinds else {}
    if "transformers" in kinds:
        processor = _image_processor(export.preprocessing)
        content |= _transformers_config(export)
        content["transformers_weights"] = folder.weights("transformers").relative_to(folder.path).as_posix()
        # transformers takes a folder with a config of timm's for one of timm alone, and asks that config.
        content["image_processor_type"] = processor["image_processor_type"]
        write_json(folder.preprocessor, processor)
    if content:
        write_json(folder.config, content)


def write_transformers(export: Export, folder: ReleaseFolder) -> None:
    """A folder that `AutoModel.from_pretrained` and `AutoImageProcessor.from_pretrained` read."""
    _save(to_transformers(export.model.state_dict()), folder.weights("transformers"), export)
    part = folder.part("transformers")
    write_json(part / "config.json", _transformers_config(export))
    write_json(part / "preprocessor_config.json", _image_processor(export.preprocessing))


def _transformers_config(export: Export) -> dict[str, object]:
    return {**transformers_config(export.config), "torch_dtype": export.dtype}


def _image_processor(preprocessing: Preprocessing) -> dict[str, object]:
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": preprocessing.resize_px},
        "resample": _RESAMPLE[preprocessing.interpolation],
        "do_center_crop": True,
        "crop_size": {"height": preprocessing.crop_px, "width": preprocessing.crop_px},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(preprocessing.mean),
        "image_std": list(preprocessing.std),
    }


def write_onnx(export: Export, folder: ReleaseFolder) -> None:
    """One float32 graph for batches of any number of images of any size, square or not."""
    write_graph(export.model, export.preprocessing.crop_px, folder.weights("onnx"))
    write_json(folder.part("onnx") / "preprocessing.json", export.preprocessing.to_dict())


def write_graph(model: VisionTransformer, side_px: int, path: Path) -> None:
    """An ONNX graph that computes in the type of the model's values; `side_px` of the images that it is traced with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    batch = {0: "batch"}
    images = {**batch, 2: "height", 3: "width"}
    patches = {**batch, 1: "patches"}
    with warnings.catch_warnings():
        # The exporter that follows Python instead of TorchScript needs a package more, for the same graph.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            AnySize(model).eval(),
            (torch.zeros(2, 3, side_px, side_px),),
            str(path),
            input_names=["images"],
            output_names=["cls", "patches"],
            dynamic_axes={"images": images, "cls": batch, "patches": patches},
            opset_version=ONNX_OPSET,
            dynamo=False,
        )


WRITERS: dict[str, Callable[[Export, ReleaseFolder], None]] = {
    "hub": write_hub,
    "timm": write_timm,
    "transformers": write_transformers,
    "onnx": write_onnx,
}


def package_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in ("torch", "timm", "transformers", "onnxruntime"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
