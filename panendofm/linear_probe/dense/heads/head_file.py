"""Trained heads of a network in one file, tied to the network by its checksum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from panendofm.backbone import Preprocessing
from panendofm.backbone.networks import Network
from panendofm.linear_probe.dense.heads.layers import Decoder, DecoderHead, Head, LinearHead
from panendofm.linear_probe.dense.maps import Block, MapLayout
from panendofm.linear_probe.dense.predictor import DenseHeads
from panendofm.linear_probe.heads.head_file import read_head_file, write_head_file
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import without_folders

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
    write_head_file(path, _KEY, about, tensors)


def load_dense_head(path: Path) -> StoredHeads:
    about, tensors = read_head_file(path, _KEY, FORMAT, "`linear_probe dense`")
    try:
        return _stored(about, tensors)
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise UserError(f"cannot read {path}: what it says of itself is damaged; train the head again.") from error


def _stored(about: dict[str, Any], tensors: dict[str, Tensor]) -> StoredHeads:
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
