"""A trained head in a file of its own, tied to the network it was trained on by that network's checksum."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from panendofm.backbone import FeatureKind
from panendofm.backbone.networks import Network, find_network
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.probe import Head
from panendofm.linear_probe.tasks import Task
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import parse_json, write_bytes
from panendofm.runtime.names import without_folders

_KEY = "linear_probe_head"
FORMAT = 1


def write_head_file(path: Path, key: str, about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Tensors as safetensors, with what is said of them under `key`."""
    stored = {name: tensor.detach().float().contiguous().cpu() for name, tensor in tensors.items()}
    write_bytes(path, save(stored, metadata={key: json.dumps(about, sort_keys=True)}))


def read_head_file(path: Path, key: str, version: int, maker: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `write_head_file` wrote, without the format's number."""
    if not path.is_file():
        raise UserError(f"cannot read the head {path}: it does not exist; check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(key)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot read the head {path}: it is no safetensors file, or it is damaged.") from error
    about = parse_json(text or "{}", path)
    if not isinstance(about, dict) or about.pop("format", None) != version:
        raise UserError(f"cannot read {path}: it is no head of {maker}.")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise UserError(f"cannot read {path}: its weights are not finite; train it again.")
    return about, tensors


@dataclass(frozen=True)
class StoredHead:
    task: str
    classes: list[str]
    levels: list[tuple[str, int, int]]
    exclusive: bool
    kind: FeatureKind
    columns: Columns
    temperature: float
    word: str  # how the network was named
    weights_sha256: str
    architecture: str
    weight: Tensor  # [D, C]
    bias: Tensor  # [C]
    clean: bool = False  # whether its pictures were cleaned as training frames are


def save_head(path: Path, head: Head, task: Task, network: Network, kind: FeatureKind, clean: bool = False) -> None:
    about = {
        "format": FORMAT,
        "task": task.name,
        "classes": list(task.classes),
        "levels": [[level.name, level.start, level.stop] for level in task.levels],
        "exclusive": task.exclusive,
        "kind": kind.to_dict(),
        "columns": vars(head.columns),
        "temperature": head.temperature,
        "word": without_folders(network.word),  # a head is given to others
        "weights_sha256": network.weights_sha256,
        "architecture": network.architecture,
        "clean": clean,
    }
    write_head_file(path, _KEY, about, {"weight": head.weight, "bias": head.bias})


def load_head(path: Path) -> StoredHead:
    about, tensors = read_head_file(path, _KEY, FORMAT, "a linear probe")
    if set(tensors) != {"weight", "bias"}:
        raise UserError(f"cannot read {path}: it is no head of a linear probe.")
    try:
        about["kind"], about["columns"] = FeatureKind(**about["kind"]), Columns(**about["columns"])
        about["levels"] = [(str(n), int(a), int(b)) for n, a, b in about["levels"]]
        head = StoredHead(**about, weight=tensors["weight"], bias=tensors["bias"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"cannot read {path}: what it says of itself is damaged; train the head again.") from error
    width = head.columns.stop - head.columns.start
    shapes = tuple(head.weight.shape), tuple(head.bias.shape)
    if shapes != ((width, len(head.classes)), (len(head.classes),)):
        raise UserError(f"cannot read {path}: its weights do not fit its classes; train it again.")
    return head


def network_of_head(path: Path, word: str, weights: str | None) -> Network:
    """The network that the user names, else the one that a head was trained on.

    Heads are given to others, so they know a network that lies in a folder by its bare name only.
    """
    try:
        return find_network(weights or word)
    except UserError as error:
        if weights is not None:
            raise
        said = str(error).rstrip(".")
        raise UserError(f"{path} was trained on {word}: {said}; or say where it is with --weights.") from error


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
            "--weights."
        )


def probabilities(head: StoredHead, features: Tensor) -> Tensor:
    """Calibrated probabilities [N, C] of stored features [N, width]."""
    chosen = features[:, head.columns.start : head.columns.stop]
    return torch.sigmoid((chosen @ head.weight + head.bias) / head.temperature)
