"""Trained heads of a network in one file, tied to the network by its checksum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from panendofm.backbone import Preprocessing
from panendofm.backbone.networks import Network
from panendofm.linear_probe.dense.config import CENTER
from panendofm.linear_probe.dense.heads.layers import Decoder, DecoderHead, Head, LinearHead
from panendofm.linear_probe.dense.maps import Block, MapLayout
from panendofm.linear_probe.dense.predictor import DenseHeads
from panendofm.linear_probe.heads.head_file import read_head_file, write_head_file
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import without_folders

_KEY = "dense_head"


@dataclass(frozen=True)
class DenseHeadInfo:
    """What the file of dense heads says of them."""

    kind: str
    classes: list[str]
    thresholds: list[float]
    detect_with: str
    block: Block | None  # of a linear head; None: all channels
    preprocessing: Preprocessing
    grid: tuple[int, int]
    blocks: list[Block]
    channels: int
    word: str  # the spec of the network, without folders: a head is given to others
    weights_sha256: str
    architecture: str
    format: Literal[1] = 1

    @property
    def layout(self) -> MapLayout:
        return MapLayout(self.preprocessing, self.grid, tuple(self.blocks), self.channels)


@dataclass(frozen=True)
class StoredHeads:
    info: DenseHeadInfo
    heads: DenseHeads


def save_dense_head(path: Path, heads: DenseHeads, classes: Sequence[str], network: Network, layout: MapLayout) -> None:
    segmentation = heads.segmentation
    info = DenseHeadInfo(
        kind=heads.kind,
        classes=list(classes),
        thresholds=list(heads.thresholds),
        detect_with=heads.detect_with,
        block=segmentation.block if isinstance(segmentation, LinearHead) else None,
        preprocessing=layout.preprocessing,
        grid=layout.grid,
        blocks=list(layout.blocks),
        channels=layout.channels,
        word=without_folders(network.word),
        weights_sha256=network.weights_sha256,
        architecture=network.architecture,
    )
    tensors = {f"segmentation.{name}": tensor for name, tensor in segmentation.tensors().items()}
    if heads.detection is not None:
        tensors |= {f"{CENTER}.{name}": tensor for name, tensor in heads.detection.tensors().items()}
    write_head_file(path, _KEY, info, tensors)


def load_dense_head(path: Path) -> StoredHeads:
    info, tensors = read_head_file(DenseHeadInfo, path, _KEY, "`panendofm dense`")
    own = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith("segmentation.")}
    detection = None
    if f"{CENTER}.weight" in tensors:
        detection = LinearHead(None, tensors[f"{CENTER}.weight"], tensors[f"{CENTER}.bias"])
    try:
        segmentation = _segmentation(own, info.block)
    except (KeyError, IndexError, RuntimeError) as error:
        raise UserError(f"cannot read {path}: its weights are not those of a head; train the head again.") from error
    return StoredHeads(info, DenseHeads(info.kind, segmentation, tuple(info.thresholds), detection, info.detect_with))


def _segmentation(tensors: dict[str, Tensor], block: Block | None) -> Head:
    if "weight" in tensors:
        return LinearHead(block, tensors["weight"], tensors["bias"])
    state = {name.removeprefix("decoder."): t for name, t in tensors.items() if name.startswith("decoder.")}
    decoder = Decoder(state["reduce.weight"].shape[1], state["out.weight"].shape[0], state["reduce.weight"].shape[0])
    decoder.load_state_dict(state)
    return DecoderHead(tensors["mean"], tensors["scale"], decoder.eval())
