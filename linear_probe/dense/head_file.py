"""Trained heads of a network in one file, tied to the network by its checksum."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from backbone import Preprocessing
from backbone.networks import Network
from linear_probe.dense.heads import Decoder, DecoderHead, Head, LinearHead
from linear_probe.dense.maps import Block, MapLayout
from linear_probe.dense.predictor import DenseHeads
from runtime.errors import UserError
from runtime.files import write_bytes
from runtime.names import without_folders

_KEY = "dense_head"
FORMAT = 1


@dataclass(frozen=True)
class StoredHeads:
    heads: DenseHeads
    classes: tuple[str, ...]
    layout: MapLayout
    word: str  # how the network was named
    weights_sha256: str
    architecture: str


def save_dense_head(path: Path, heads: DenseHeads, classes: Sequence[str], network: Network, layout: MapLayout) -> None:
    segmentation = heads.segmentation
    block = segmentation.block if isinstance(segmentation, LinearHead) else None
    about = {
        "format": FORMAT,
        "kind": heads.kind,
        "classes": list(classes),
        "thresholds": list(heads.thresholds),
        "detect_with": heads.detect_with,
        "block": asdict(block) if block is not None else None,
        "preprocessing": layout.preprocessing.to_dict(),
        "grid": list(layout.grid),
        "blocks": [asdict(b) for b in layout.blocks],
        "channels": layout.channels,
        "word": without_folders(network.word),  # a head is given to others
        "weights_sha256": network.weights_sha256,
        "architecture": network.architecture,
    }
    tensors = {f"segmentation.{name}": tensor for name, tensor in segmentation.tensors().items()}
    if heads.centre is not None:
        tensors |= {f"centre.{name}": tensor for name, tensor in heads.centre.tensors().items()}
    stored = {name: tensor.detach().float().contiguous().cpu() for name, tensor in tensors.items()}
    write_bytes(path, save(stored, metadata={_KEY: json.dumps(about, sort_keys=True)}))


def load_dense_head(path: Path) -> StoredHeads:
    if not path.is_file():
        raise UserError(f"cannot read the head {path}: it does not exist; check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise UserError(f"cannot read the head {path}: it is no safetensors file, or it is damaged.") from error
    about: dict[str, Any] = json.loads(text) if text else {}
    if about.get("format") != FORMAT:
        raise UserError(f"cannot read {path}: it is no head of `linear_probe dense`.")
    block = Block(**about["block"]) if about["block"] is not None else None
    segmentation = _segmentation(
        {n.partition(".")[2]: t for n, t in tensors.items() if n.startswith("segmentation.")}, block
    )
    centre = None
    if "centre.weight" in tensors:
        centre = LinearHead(None, tensors["centre.weight"], tensors["centre.bias"])
    heads = DenseHeads(about["kind"], segmentation, tuple(about["thresholds"]), centre, about["detect_with"])
    layout = MapLayout(
        Preprocessing.from_dict(about["preprocessing"]),
        (about["grid"][0], about["grid"][1]),
        tuple(Block(**b) for b in about["blocks"]),
        about["channels"],
    )
    return StoredHeads(
        heads, tuple(about["classes"]), layout, about["word"], about["weights_sha256"], about["architecture"]
    )


def _segmentation(tensors: dict[str, Tensor], block: Block | None) -> Head:
    if "weight" in tensors:
        return LinearHead(block, tensors["weight"], tensors["bias"])
    state = {name.removeprefix("decoder."): t for name, t in tensors.items() if name.startswith("decoder.")}
    decoder = Decoder(state["reduce.weight"].shape[1], state["out.weight"].shape[0], state["reduce.weight"].shape[0])
    decoder.load_state_dict(state)
    return DecoderHead(tensors["mean"], tensors["scale"], decoder.eval())


def check_fits(stored: StoredHeads, path: Path, network: Network) -> None:
    """Heads must have been trained on exactly these weights."""
    if stored.weights_sha256 != network.weights_sha256:
        raise UserError(
            f"{path} was trained on other weights (sha256 {stored.weights_sha256[:12]}…, {stored.architecture}) than "
            f"{network.word} has ({network.weights_sha256[:12]}…); name its own network with --weights."
        )
