"""A trained head in a file of its own, tied to the network it was trained on by that network's checksum."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from panendofm.atlas import Task
from panendofm.backbone import FeatureKind
from panendofm.backbone.networks import Network, find_network
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.probe import Head
from panendofm.records.documents import as_document, parse_document
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import parse_json, write_bytes
from panendofm.runtime.names import without_folders

T = TypeVar("T")

_KEY = "linear_probe_head"


def write_head_file(path: Path, key: str, about: object, tensors: dict[str, Tensor]) -> None:
    """Tensors as safetensors, with a dataclass that describes them under `key`."""
    stored = {name: tensor.detach().float().contiguous().cpu() for name, tensor in tensors.items()}
    write_bytes(path, save(stored, metadata={key: json.dumps(as_document(about), sort_keys=True)}))


def read_head_file(kind: type[T], path: Path, key: str, maker: str) -> tuple[T, dict[str, Tensor]]:
    """What `write_head_file` wrote."""
    if not path.is_file():
        raise UserError(f"cannot read the head {path}: it does not exist; check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(key)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot read the head {path}: it is no safetensors file, or it is damaged.") from error
    if text is None:
        raise UserError(f"cannot read {path}: it is no head of {maker}.")
    about = parse_document(kind, parse_json(text, path), path, f"a head of {maker}; train the head again")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise UserError(f"cannot read {path}: its weights are not finite; train it again.")
    return about, tensors


@dataclass(frozen=True)
class HeadInfo:
    """What the file of a head says of it."""

    task: str
    classes: list[str]
    levels: list[tuple[str, int, int]]
    exclusive: bool
    kind: FeatureKind
    columns: Columns
    temperature: float
    word: str  # the spec of its network, without folders: a head is given to others
    weights_sha256: str
    architecture: str
    clean: bool = False  # whether its images were cleaned as training frames are
    format: Literal[1] = 1


@dataclass(frozen=True)
class StoredHead:
    info: HeadInfo
    weight: Tensor  # [D, C]
    bias: Tensor  # [C]


def save_head(path: Path, head: Head, task: Task, network: Network, kind: FeatureKind, clean: bool = False) -> None:
    info = HeadInfo(
        task=task.name,
        classes=list(task.classes),
        levels=[(level.name, level.start, level.stop) for level in task.levels],
        exclusive=task.exclusive,
        kind=kind,
        columns=head.columns,
        temperature=head.temperature,
        word=without_folders(network.word),
        weights_sha256=network.weights_sha256,
        architecture=network.architecture,
        clean=clean,
    )
    write_head_file(path, _KEY, info, {"weight": head.weight, "bias": head.bias})


def load_head(path: Path) -> StoredHead:
    info, tensors = read_head_file(HeadInfo, path, _KEY, "a linear probe")
    if set(tensors) != {"weight", "bias"}:
        raise UserError(f"cannot read {path}: it is no head of a linear probe.")
    width = info.columns.stop - info.columns.start
    shapes = tuple(tensors["weight"].shape), tuple(tensors["bias"].shape)
    if shapes != ((width, len(info.classes)), (len(info.classes),)):
        raise UserError(f"cannot read {path}: its weights do not fit its classes; train it again.")
    return StoredHead(info, tensors["weight"], tensors["bias"])


def network_of_head(path: Path, word: str, spec: str | None) -> Network:
    """The network that the user names, else the one that a head was trained on.

    Heads are given to others, so they know a network that lies in a folder by its bare name only.
    """
    try:
        return find_network(spec or word)
    except UserError as error:
        if spec is not None:
            raise
        said = str(error).rstrip(".")
        raise UserError(f"{path} was trained on {word}: {said}; or say where it is with network=….") from error


class TrainedOn(Protocol):
    """What any stored head knows of its network."""

    @property
    def weights_sha256(self) -> str: ...
    @property
    def architecture(self) -> str: ...


def check_fits(head: TrainedOn, path: Path, network: Network) -> None:
    """The head must have been trained on exactly these weights."""
    if head.weights_sha256 != network.weights_sha256:
        raise UserError(
            f"{path} was trained on other weights ({head.architecture}, checksum {head.weights_sha256[:12]}) than "
            f"{network.word} ({network.architecture}, checksum {network.weights_sha256[:12]}); name those with "
            "network=…."
        )


def probabilities(head: StoredHead, features: Tensor) -> Tensor:
    """Calibrated probabilities [N, C] of stored features [N, width]."""
    chosen = features[:, head.info.columns.start : head.info.columns.stop]
    return torch.sigmoid((chosen @ head.weight + head.bias) / head.info.temperature)
