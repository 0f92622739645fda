"""Weights in: one function that finds out what it was given.

It reads the official DINOv2 files, timm and transformers checkpoints, transformers folders, our run and checkpoint
folders, and our releases. Loading is strict, and nothing but tensors is unpickled.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from panendofm.backbone.config import Execution, ViTConfig, architecture_name, vit_config
from panendofm.backbone.preprocessing import Preprocessing, transformers_preprocessing
from panendofm.backbone.vit import VisionTransformer
from panendofm.backbone.weights.foreign import State, config_of, format_of, to_official
from panendofm.backbone.weights.weight_files import read_tensors, refuse_non_finite
from panendofm.records.release import ReleaseFolder, ReleaseInfo, ReleaseSource
from panendofm.records.run import (
    RunFolder,
    fault_of_files,
    is_whole_checkpoint,
    read_checkpoint_info,
    refuse_half_written,
    run_of,
)
from panendofm.records.shards import Certificate
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import parse_json, read_json_object

# Our safetensors files hold this JSON text in their header: {"vit": …, "preprocessing": …, "weights_sha256": …} and, in
# a release, the certificate's checksum.
HEADER_KEY = "panendofm"
Role = Literal["teacher", "student"]
_LISTED = 3  # tensors that an error names


@dataclass(frozen=True)
class Origin(ReleaseSource):
    """Where weights come from, as far as it is known; more than a release may tell."""

    path: str = ""
    checkpoint: str | None = None
    run: str | None = None
    release: str | None = None
    certificate_sha256: str | None = None  # that the header of a file names


@dataclass(frozen=True)
class LoadedBackbone:
    """A backbone, ready to use, and what is known of it."""

    model: VisionTransformer  # in eval() mode, float32, on the CPU
    preprocessing: Preprocessing
    architecture: str  # e.g. vit_large_patch14
    source: str  # what was given: official, timm, transformers, panendofm, checkpoint or release
    weights_sha256: str  # of the values, not of a file: equal for the same backbone in every format
    certificate: Certificate | None  # the leakage certificate of the data it was trained on
    origin: Origin


@dataclass(frozen=True)
class _Weights:
    """Weights as read, before they are checked."""

    state: State  # official names
    source: str
    config: ViTConfig | None = None  # None: to be read off the shapes
    preprocessing: Preprocessing | None = None
    certificate: Certificate | None = None
    origin: Origin | None = None
    weights_sha256: str | None = None  # what the checksum of the values must be


def load_backbone(
    path: Path | str,
    architecture: str | ViTConfig | None = None,
    role: Role = "teacher",
    execution: Execution | None = None,
    release_format: str | None = None,
) -> LoadedBackbone:
    """Load a backbone from a file or folder of any known kind.

    `architecture` demands a certain one (a name such as vit_large_patch14, or a config); by default it is found out.
    `role` chooses between teacher and student where a checkpoint holds both; `release_format` between the formats of a
    release, which all give the same features.
    """
    path = Path(path)
    weights = _read(path, role) if release_format is None else _from_release(ReleaseFolder(path), release_format)
    demanded = vit_config(architecture) if isinstance(architecture, str) else architecture
    try:
        config = demanded or weights.config or config_of(weights.state)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    _check_tensors(weights.state, config, path)
    if weights.config is not None:
        _check_config(weights.config, config, path)
    with torch.device("meta"):
        model = VisionTransformer(config, execution)
    state = {name: tensor.to(torch.float32) for name, tensor in weights.state.items()}
    refuse_non_finite(state, path)
    checksum = weights_checksum(config, state)
    if weights.weights_sha256 is not None and checksum != weights.weights_sha256:
        raise UserError(
            f"{path}: its weights are not those that it was written with (checksum {checksum[:16]}… instead of "
            f"{weights.weights_sha256[:16]}…); it is damaged or was changed, get it again."
        )
    model.load_state_dict(state, strict=True, assign=True)
    return LoadedBackbone(
        model=model.eval(),
        preprocessing=weights.preprocessing or Preprocessing(),
        architecture=architecture_name(config),
        source=weights.source,
        weights_sha256=checksum,
        certificate=weights.certificate,
        origin=replace(weights.origin or Origin(weights.source), path=str(path)),
    )


def weights_checksum(config: ViTConfig, state: State) -> str:
    """SHA-256 over the sizes and all values: what decides the features, whatever file they came from."""
    digest = hashlib.sha256(json.dumps(_computed(config), sort_keys=True).encode())
    for name in sorted(state):
        values = state[name].detach().to("cpu", torch.float32).contiguous()
        digest.update(f"{name}{tuple(values.shape)}".encode())
        digest.update(values.numpy().data)
    return digest.hexdigest()


# --------------------------------------------------------------------------------------------- what was given


def _read(path: Path, role: Role) -> _Weights:
    if path.is_file():
        return _from_file(path, role)
    if not path.is_dir():
        raise UserError(f"cannot load a backbone from {path}: it does not exist; check the path.")
    if ReleaseFolder(path).is_release():
        return _from_release(ReleaseFolder(path))
    refuse_half_written(path)
    if is_whole_checkpoint(path):
        return _from_checkpoint(path, role)
    if RunFolder(path).is_run():
        return _from_checkpoint(RunFolder(path).selected_or_latest(), role)
    if (path / "config.json").is_file():
        return _from_model_folder(path, role)
    raise UserError(
        f"cannot load a backbone from the folder {path}: it is no run, no checkpoint, no release and no transformers "
        "or timm folder (config.json); check the path."
    )


def _from_file(path: Path, role: Role) -> _Weights:
    tensors, header = read_tensors(path, role)
    kind = format_of(tensors)
    if kind is None:
        names = ", ".join(f"'{name}'" for name in list(tensors)[:_LISTED])
        raise UserError(f"{path}: it holds no DINOv2 backbone (its tensors are {names}, …); check the file.")
    try:
        state = to_official(tensors)
        stored = read_header(header, path)
        return _Weights(
            state,
            source="panendofm" if stored else kind,
            config=ViTConfig.from_dict(stored["vit"]) if "vit" in stored else None,
            preprocessing=Preprocessing.from_dict(stored["preprocessing"]) if "preprocessing" in stored else None,
            origin=Origin("panendofm", certificate_sha256=stored.get("certificate_sha256")) if stored else None,
            weights_sha256=stored.get("weights_sha256"),
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def read_header(header: dict[str, str], path: Path) -> dict[str, Any]:
    """What we have written into the header of a safetensors file; empty for files of others."""
    values = parse_json(header.get(HEADER_KEY, "{}"), f"the header of {path}")
    if not isinstance(values, dict):
        raise UserError(f"the header of {path} is damaged ('{HEADER_KEY}' is no mapping); get the file again.")
    return values


def _from_checkpoint(path: Path, role: Role) -> _Weights:
    info = read_checkpoint_info(path)
    fault = fault_of_files(path, info)
    if fault is not None:
        raise UserError(f"cannot read the checkpoint {path}: {fault}; use another checkpoint.")
    from panendofm.backbone.weights.checkpoint_folder import (
        read_backbone,  # takes a second to import: only checkpoints need it
    )

    run = run_of(path)
    return _Weights(
        read_backbone(path, role),
        source="checkpoint",
        config=ViTConfig.from_dict(info.vit),
        preprocessing=Preprocessing.from_dict(info.preprocessing) if info.preprocessing else None,
        certificate=info.certificate,
        origin=Origin(
            "checkpoint",
            info.step,
            role,
            info.images_seen,
            info.shards_sha256,
            checkpoint=str(path),
            run=None if run is None else str(run.path),
        ),
    )


def _from_release(folder: ReleaseFolder, chosen: str | None = None) -> _Weights:
    release = folder.read()
    kind = chosen or next((k for k in ("hub", "transformers", "timm") if k in release.weights), None)
    if kind is None:
        held = ", ".join(release.weights)
        raise UserError(f"the release {folder.path} holds no weights that can be loaded here (only: {held}).")
    folder.refuse_changed_info()
    weights = _from_file(folder.weights(kind), "teacher")
    check_against_release(weights, release, kind, folder)
    return replace(
        weights,
        source="release",
        config=ViTConfig.from_dict(release.vit),
        preprocessing=Preprocessing.from_dict(release.preprocessing),
        certificate=release.certificate,
        origin=Origin(**vars(release.source), release=release.name),
        weights_sha256=release.values_sha256[kind],
    )


def check_against_release(weights: _Weights, release: ReleaseInfo, kind: str, folder: ReleaseFolder) -> None:
    """What the header of a weights file says must be what release.json says."""
    told = {
        "vit": (weights.config and weights.config.to_dict(), ViTConfig.from_dict(release.vit).to_dict()),
        "preprocessing": (weights.preprocessing, Preprocessing.from_dict(release.preprocessing)),
        "the certificate": (weights.origin and weights.origin.certificate_sha256, release.certificate_sha256),
        "the weights' checksum": (weights.weights_sha256, release.values_sha256.get(kind)),
    }
    for what, (header, described) in told.items():
        if header != described or (header is None and what != "the certificate"):
            raise UserError(
                f"{folder.info} and the header of {folder.weights(kind)} do not say the same of {what}; one of them "
                "was changed, get the release again."
            )


def _from_model_folder(path: Path, role: Role) -> _Weights:
    """A folder in the layout of transformers or of timm's hub: config.json beside the weights."""
    names = ("model.safetensors", "pytorch_model.bin")
    file = next((path / name for name in names if (path / name).is_file()), None)
    if file is None:
        raise UserError(f"the folder {path} has a config.json but no weights ({' or '.join(names)}); complete it.")
    weights = _from_file(file, role)
    values = read_json_object(path / "config.json")
    preprocessor = path / "preprocessor_config.json"
    try:
        heads = values.get("num_attention_heads") or values.get("model_args", {}).get("num_heads")
        config = weights.config
        if config is None and heads:  # the one size that no tensor tells
            config = config_of(weights.state, heads=int(heads))
        preprocessing = None
        if preprocessor.is_file():
            image_px = int(values.get("image_size") or Preprocessing.crop_px)
            preprocessing = transformers_preprocessing(read_json_object(preprocessor), preprocessor, image_px)
    except (UserError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"cannot read the configs in {path}: {str(error).rstrip('.')}.") from error
    return replace(weights, config=config, preprocessing=preprocessing or weights.preprocessing)


# --------------------------------------------------------------------------------------------------- strictness


def _computed(config: ViTConfig) -> dict[str, Any]:
    """The part of a config that decides what loaded weights compute."""
    return {k: v for k, v in config.to_dict().items() if k not in ("drop_path", "layerscale_init")}


def _check_config(stored: ViTConfig, demanded: ViTConfig, path: Path) -> None:
    """Sizes that leave no trace in the tensors' shapes (heads, interpolation) must agree too."""
    wanted = _computed(demanded)
    for key, value in _computed(stored).items():
        if wanted[key] != value:
            raise UserError(f"{path} was made with {key}={value}, but {key}={wanted[key]} is demanded; change that.")


def _check_tensors(state: dict[str, Tensor], config: ViTConfig, path: Path) -> None:
    """Raise a `UserError` that lists the first missing, unexpected and mis-shaped tensors."""
    with torch.device("meta"):
        expected = {name: tuple(t.shape) for name, t in VisionTransformer(config).state_dict().items()}
    missing = [name for name in expected if name not in state]
    unexpected = [name for name in state if name not in expected]
    shapes = [
        f"{name} {tuple(state[name].shape)} instead of {shape}"
        for name, shape in expected.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    if not (missing or unexpected or shapes):
        return
    problems = [
        f"{len(names)} {kind} ({', '.join(names[:_LISTED])}{', …' if len(names) > _LISTED else ''})"
        for kind, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if names
    ]
    swiglu = "blocks.0.mlp.w12.weight" in state
    hint = ""
    if swiglu != (config.ffn == "swiglu"):
        held, wanted = ("SwiGLU", "MLP") if swiglu else ("MLP", "SwiGLU")
        hint = f"; the file's feed-forward layers are {held}, the architecture's {wanted}"
    raise UserError(f"{path} does not fit {architecture_name(config)}: tensors {'; '.join(problems)}{hint}.")
