"""Features of all images, extracted once a network, and the parts of them that heads are trained on."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from panendofm.atlas import Sample
from panendofm.backbone import FeatureCache, FeatureKind
from panendofm.backbone.networks import Network, Reading, network_features
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.linear_probe.results.document import Efficiency

# Blocks whose cls tokens the converged protocol looks at.
LAST_BLOCKS = 4
_TIMED_IMAGES = 10
_TIMED_BATCH = 16


@dataclass(frozen=True)
class Columns:
    """A part of the stored features: one choice of layers and pooling."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Read:
    """Features of all samples, what they hold, and the parts that heads may choose from."""

    features: Tensor  # [N, width]
    kind: FeatureKind
    columns: list[Columns]

    def only(self, rows: Tensor) -> Read:
        """`rows`: numbers of samples [M]."""
        return replace(self, features=self.features[rows])


def feature_kind(network: Network, several: bool) -> FeatureKind:
    """The last cls token; with `several`, those of the last blocks and the mean patch token beside it."""
    blocks = network.outputs.blocks
    if not several or not blocks:
        return FeatureKind()
    return FeatureKind(layers=min(LAST_BLOCKS, blocks), patch_mean=True)


def columns_of(kind: FeatureKind, width: int) -> list[Columns]:
    """The choices that stored features of the last blocks hold, plain cls token first."""
    if not kind.patch_mean:
        return [Columns("cls", 0, width)]
    token = width // (kind.layers + 1)
    last = (kind.layers - 1) * token
    choices = [Columns("cls", last, last + token), Columns("cls+mean patch", last, width)]
    if kind.layers > 1:
        choices.append(Columns(f"cls of {kind.layers} blocks", 0, kind.layers * token))
    return choices


def features_of(
    network: Network,
    samples: Sequence[Sample],
    several: bool,
    cache: FeatureCache,
    batch_size: int,
    device: str,
    reading: Reading | None = None,
    clean: bool = False,
) -> Read:
    """Features of all samples, from the cache when they are there.

    `reading` is what the user's `block` and `pooling` say; None: the protocol decides (`several`).
    """
    kind = feature_kind(network, several) if reading is None else reading.kind
    data = hashlib.sha256("\n".join(sample.sha256 for sample in samples).encode()).hexdigest()
    paths = [sample.path for sample in samples]
    cleaner = Cleaner(cache.folder) if clean else None
    features = network_features(network, paths, data, cache, kind, batch_size, device, clean=cleaner)
    width = features.shape[1]
    if reading is not None and kind.blocks:
        return Read(features, kind, [Columns(choice.name, *choice.columns(width)) for choice in reading.choices])
    return Read(features, kind, columns_of(kind, width))


def of_one_block(kind: FeatureKind, columns: Columns, width: int) -> tuple[FeatureKind, Columns]:
    """The same columns where only their own block is computed: what a head needs once it is chosen."""
    if not kind.blocks:
        return kind, columns
    each = width // len(kind.blocks)
    place = columns.start // each
    only = FeatureKind(blocks=kind.blocks[place : place + 1])
    return only, Columns(columns.name, columns.start - place * each, columns.stop - place * each)


@torch.no_grad()
def measure_efficiency(network: Network, device: str) -> Efficiency:
    """The first call of each size sets things up and is not counted."""
    module = network.load().to(device)
    side = network.preprocessing.crop_px
    kind = FeatureKind()

    def seconds(images: Tensor) -> float:
        began = time.perf_counter()
        kind.of(module, images).cpu()  # the copy waits for the device
        return time.perf_counter() - began

    one = torch.zeros(1, 3, side, side, device=device)
    batch = torch.zeros(_TIMED_BATCH, 3, side, side, device=device)
    seconds(one)
    single = sorted(seconds(one) for _ in range(_TIMED_IMAGES))
    parameters = sum(p.numel() for p in module.parameters())
    seconds(batch)
    return Efficiency(device, parameters, 1000 * single[len(single) // 2], _TIMED_BATCH / seconds(batch))
