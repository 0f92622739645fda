"""Networks of the timm library, from weights that are on this machine. Nothing is downloaded."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from panendofm.backbone.networks.network import Description, Loaded, Outputs, Source, values_checksum
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.backbone.weights.fit import beside_the_head, refuse_misfit
from panendofm.backbone.weights.weight_files import read_tensors
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_object

_UNTRAINED_SEED = 0
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Of a folder's model_args, what says where weights come from and not what the model is: here the folder's file decides.
_NOT_SIZES = ("pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path", "cache_dir")


class TimmEncoder(nn.Module):
    """A timm model without its classifier: its pooled vector [B, D], and the maps of its blocks or stages."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.network(images))

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        return maps_of_timm(self.network, images, last)

    def vector_and_map(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What forward() gives, and the last map, in one pass."""
        network: Any = self.network
        final, (patches,) = network.forward_intermediates(images, indices=1, norm=True, output_fmt="NCHW")
        return network.forward_head(final), patches


def maps_of_timm(network: nn.Module, images: Tensor, last: int) -> list[Tensor]:
    """[B, C, h, w] of the last blocks (each through the final norm) or stages, the last one last."""
    forward: Any = network.forward_intermediates
    maps = forward(images, indices=last, norm=True, output_fmt="NCHW", intermediates_only=True)
    return list(maps)


def timm_source(rest: str) -> Source:
    """`timm:NAME@FILE`, `timm:FOLDER` (timm's hub layout) or `timm:NAME` (weights in the local Hugging Face cache)."""
    folder = Path(rest)
    if folder.is_dir():
        return _folder_source(folder)
    name, at, file = rest.partition("@")
    if not at:
        return Source(name, partial(read_timm, name, None), baseline=True)
    path = Path(file)
    if not path.is_file():
        raise UserError(f"timm:{rest}: the file {path} does not exist; check the path.")
    return Source(name, partial(read_timm, name, path), kind=f"timm {name}", files=path, baseline=True)


def _folder_source(folder: Path) -> Source:
    config = folder / "config.json"
    if not config.is_file():
        raise UserError(f"timm:{folder}: {config} is missing; a folder in timm's hub layout has one.")
    values = read_json_object(config)
    if "architecture" not in values:
        raise UserError(f"{config}: the key 'architecture' is missing; this is no timm folder.")
    file = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise UserError(f"{folder}: no weights there; {' or '.join(_WEIGHTS)} is expected.")
    sizes = {key: value for key, value in values.get("model_args", {}).items() if key not in _NOT_SIZES}
    name = str(values["architecture"])
    read = partial(read_timm, name, file, sizes, values.get("pretrained_cfg", {}))
    return Source(name, read, kind="timm folder", files=folder)


def read_timm(
    name: str, file: Path | None, sizes: dict[str, Any] | None = None, input_settings: dict[str, Any] | None = None
) -> Loaded:
    """A timm model without its classifier; its weights come from `file`, else from the local Hugging Face cache."""
    ensure_torchvision()
    import timm

    if not timm.is_model(name):
        close = timm.list_models(f"*{name}*")[:3]
        hint = f"; did you mean {', '.join(close)}?" if close else "; `timm.list_models()` names them all."
        raise UserError(f"timm has no model '{name}'{hint}")
    if file is None:
        network = _from_local_cache(timm, name)
    else:
        network = timm.create_model(name, pretrained=False, **{**(sizes or {}), "num_classes": 0})
        _load_file(network, name, file)
    network.pretrained_cfg = {**network.pretrained_cfg, **(input_settings or {})}
    return _loaded(timm, name, network)


def read_untrained_timm(name: str) -> Loaded:
    """The same with random weights, always the same ones."""
    ensure_torchvision()
    import timm

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_UNTRAINED_SEED)
        network = timm.create_model(name, pretrained=False, num_classes=0)
    return _loaded(timm, name, network)


def _loaded(timm: Any, name: str, network: nn.Module) -> Loaded:
    description = Description(
        name, values_checksum(name, network), _preprocessing(timm, network), Outputs(maps=_maps(network))
    )
    return Loaded(TimmEncoder(network).eval(), description)


def _maps(network: nn.Module) -> int:
    blocks: Any = getattr(network, "feature_info", ())
    return len(blocks) if hasattr(network, "forward_intermediates") else 0


def _from_local_cache(timm: Any, name: str) -> Any:
    try:
        with _offline():
            return timm.create_model(name, pretrained=True, num_classes=0)
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"timm:{name} has no weights on this machine; name a file with timm:{name}@FILE, or put them into the "
            "local Hugging Face cache first."
        ) from error


@contextmanager
def _offline() -> Iterator[None]:
    """The Hugging Face hub must not be asked: only what lies in its cache counts."""
    import huggingface_hub.constants

    before = os.environ.get("HF_HUB_OFFLINE")
    offline = huggingface_hub.constants.HF_HUB_OFFLINE
    os.environ["HF_HUB_OFFLINE"], huggingface_hub.constants.HF_HUB_OFFLINE = "1", True
    try:
        yield
    finally:
        huggingface_hub.constants.HF_HUB_OFFLINE = offline
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before


def _load_file(network: nn.Module, name: str, file: Path) -> None:
    tensors, _ = read_tensors(file, "teacher")
    wanted = network.state_dict()
    if "_conv_stem.weight" in tensors:
        tensors = _from_other_efficientnet_names(tensors, list(wanted))
    missing = [key for key in wanted if key not in tensors]
    misshapen = [key for key in wanted if key in tensors and tensors[key].shape != wanted[key].shape]
    classifier: Any = cast(Any, network).pretrained_cfg.get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    refuse_misfit(f"{file} (timm's {name})", missing, misshapen, beside_the_head(tensors, wanted, heads))
    network.load_state_dict({key: tensors[key] for key in wanted})  # the classifier stays behind


def _from_other_efficientnet_names(tensors: dict[str, Tensor], wanted: list[str]) -> dict[str, Tensor]:
    """The widespread `_blocks.7._project_conv` naming to timm's `blocks.3.1.conv_pwl`.

    That naming counts blocks through all stages, and counts the norms of a block from its first layer, which the first
    block (it has no expansion) lacks.
    """
    stages = list(dict.fromkeys(tuple(key.split(".")[1:3]) for key in wanted if key.startswith("blocks.")))
    outside = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
    renamed = {}
    for key, value in tensors.items():
        match = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", key)
        if match is None:
            module, _, rest = key.partition(".")
            renamed[f"{outside.get(module, module)}.{rest}"] = value
            continue
        number, module, rest = int(match[1]), match[2], match[3]
        expands = f"_blocks.{number}._expand_conv.weight" in tensors
        inner = (
            {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
            | {"_project_conv": "conv_pwl", "_bn2": "bn3"}
            if expands
            else {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
        )
        renamed[f"blocks.{'.'.join(stages[number])}.{inner[module]}.{rest}"] = value
    return renamed


def _preprocessing(timm: Any, network: nn.Module) -> Preprocessing:
    config = timm.data.resolve_model_data_config(network)
    side = int(config["input_size"][-1])
    return Preprocessing(
        resize_px=math.floor(side / config["crop_pct"]),
        crop_px=side,
        interpolation=config["interpolation"],
        mean=config["mean"],
        std=config["std"],
    )
