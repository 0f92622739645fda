"""Feature maps of whole images by frozen networks: one pass over the images for all networks, kept in float16.

Images are squashed to a square, nothing is cut off: what lies at a share of the image's width lies at the same
share of the map's. A transformer's last blocks lie on one grid. Of a convolutional network the stages of stride 16
and 32 make up a map together, the second enlarged; finer stages are averaged down to the same grid.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from panendofm.backbone import Preprocessing
from panendofm.backbone.networks import Network
from panendofm.imaging.images import open_image
from panendofm.linear_probe.dense.data.images import DenseImage
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.console import progress, say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file, make_directory

# Change it when the same key would give other numbers than before.
FORMAT = 2
LAST = 4  # blocks or stages
_STRIDES_PX = (14, 32, 16, 8)
_HALF_MAX = 65504.0  # untrained networks may give more than float16 holds
_CPU_IMAGES = 4  # at once: the activations of more do not fit a CPU's caches


@dataclass(frozen=True)
class Block:
    """A part of a map's channels: one block of a transformer, or stages of a convolutional network."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class MapLayout:
    """How the maps of a network are made and what is where in them."""

    preprocessing: Preprocessing  # squashed
    grid: tuple[int, int]  # rows, columns
    blocks: tuple[Block, ...]  # choices for a head on one block; the best guess last
    channels: int


@dataclass(frozen=True)
class Maps:
    layout: MapLayout
    values: NDArray[np.float16]  # [N, rows · columns, C]

    def of(self, rows: Sequence[int] | NDArray[np.int64], block: Block | None = None) -> Tensor:
        """float32 [n, rows · columns, C] of some images; of one block only, or of all channels."""
        chosen = self.values[np.asarray(rows, np.int64)]
        if block is not None:
            chosen = chosen[..., block.start : block.stop]
        return torch.from_numpy(np.ascontiguousarray(chosen)).float()


@torch.no_grad()
def find_layout(network: Network, module: nn.Module, side_px: int) -> MapLayout:
    """Try the network on a blank image of about `side_px`; one that takes its own size only gets that."""
    if not network.outputs.maps:
        raise UserError(f"{network.name} gives one vector per image and no feature maps; name another network.")
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    own = network.preprocessing.crop_px
    sides = [max(stride, round(side_px / stride) * stride) for stride in _STRIDES_PX]
    for side in dict.fromkeys([*sides, own]):
        try:
            maps = _raw_maps(network, module, torch.zeros(1, 3, side, side, device=device))
        except (RuntimeError, AssertionError, ValueError, UserError):
            continue  # sides that a patch does not divide, or other than the positions are stored for
        if maps[-1].shape[-1] > 1:
            preprocessing = replace(network.preprocessing, resize_px=side, crop_px=side, squash=True)
            return _layout(maps, preprocessing)
    raise UserError(f"{network.name}: it takes images of neither about {side_px} px nor {own} px; set side_px.")


def _raw_maps(network: Network, module: nn.Module, images: Tensor) -> list[Tensor]:
    maps: list[Tensor] = module.feature_maps(images, last=min(LAST, network.outputs.maps))  # type: ignore[operator]
    return maps


def _layout(maps: list[Tensor], preprocessing: Preprocessing) -> MapLayout:
    widths = [m.shape[1] for m in maps]
    starts = np.cumsum([0, *widths]).tolist()
    one_grid = len({m.shape[-2:] for m in maps}) == 1
    if one_grid:
        names = [f"block -{len(maps) - i}" for i in range(len(maps))]
        blocks = tuple(Block(n, s, s + w) for n, s, w in zip(names, starts, widths, strict=False))
    else:
        blocks = (Block("last two stages", starts[-3], starts[-1]),)
    rows, columns = _grid(maps)
    return MapLayout(preprocessing, (rows, columns), blocks, starts[-1])


def _grid(maps: list[Tensor]) -> tuple[int, int]:
    """Of the last map, or of the one before it where stages shrink."""
    chosen = maps[-1] if len(maps) == 1 or maps[-1].shape == maps[-2].shape else maps[-2]
    return int(chosen.shape[-2]), int(chosen.shape[-1])


def on_one_grid(maps: list[Tensor]) -> Tensor:
    """Maps of any sizes joined on the grid of `_grid`: [B, rows · columns, C]."""
    grid = _grid(maps)
    joined = []
    for m in maps:
        if m.shape[-2] < grid[0] or m.shape[-1] < grid[1]:
            m = F.interpolate(m, grid, mode="bilinear", align_corners=False)
        elif tuple(m.shape[-2:]) != grid:
            m = F.adaptive_avg_pool2d(m, grid)
        joined.append(m)
    return torch.cat(joined, dim=1).flatten(2).mT


class MapMaker:
    """A network at work: images in, maps out."""

    def __init__(self, network: Network, side_px: int, device: torch.device) -> None:
        self.network = network
        self.device = device
        # Convolutions are faster with the channels last, on CPUs and on GPUs; transformers don't mind.
        module = network.load().to(device).eval()
        self.module: nn.Module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.layout = find_layout(network, self.module, side_px)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """[B, 3, side, side] → float32 [B, rows · columns, C] on the CPU."""
        at_once = _CPU_IMAGES if self.device.type == "cpu" else len(images)
        parts = []
        for start in range(0, len(images), at_once):
            some = images[start : start + at_once].to(self.device, memory_format=torch.channels_last)
            maps = on_one_grid(_raw_maps(self.network, self.module, some))
            parts.append(maps.float().clamp_(-_HALF_MAX, _HALF_MAX).cpu())
        return torch.cat(parts)


# ------------------------------------------------------------------------------------------------- the one pass


def feature_maps(
    networks: Sequence[Network],
    images: Sequence[DenseImage],
    cache: Path,
    side_px: int,
    batch_size: int,
    device: torch.device,
) -> dict[str, Maps]:
    """Maps of all images by every network, by its name. What is not in the cache is computed in one pass."""
    data = hashlib.sha256("\n".join(p.sha256 for p in images).encode()).hexdigest()
    files = {n.name: make_directory(cache) / f"{_digest(n, data, side_px)}.npy" for n in networks}
    missing = [n for n in networks if not files[n.name].is_file()]
    if missing:
        makers = [MapMaker(n, side_px, device) for n in missing]
        _one_pass(makers, images, [files[n.name] for n in missing], batch_size)
    known = len(networks) - len(missing)
    if known:
        say(f"feature maps: {known} of {len(networks)} networks from the cache {cache}")
    return {name: _open(file) for name, file in files.items()}


def _digest(network: Network, data: str, side_px: int) -> str:
    key = [FORMAT, network.weights_sha256, network.architecture, network.preprocessing.to_dict(), data, side_px, LAST]
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


def _open(file: Path) -> Maps:
    layout = read_document(MapLayout, file.with_suffix(".json"), "the layout of feature maps", "remove the cache")
    return Maps(layout, np.load(file, mmap_mode="r", allow_pickle=False))


def _one_pass(makers: list[MapMaker], images: Sequence[DenseImage], files: list[Path], batch_size: int) -> None:
    """A file appears when it is whole: a pass that is killed leaves nothing that could be taken for its result."""
    with ExitStack() as stack, progress("feature maps", len(images), "images") as bar:
        streams = []
        for maker, file in zip(makers, files, strict=True):
            rows, columns = maker.layout.grid
            write_document(file.with_suffix(".json"), maker.layout)
            stream = stack.enter_context(atomic_file(file))
            shape = (len(images), rows * columns, maker.layout.channels)
            header = {"descr": "<f2", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(stream, header)
            streams.append(stream)
        for batches in _batches(makers, images, batch_size):
            for maker, stream, batch in zip(makers, streams, batches, strict=True):
                stream.write(maker(batch).half().numpy().astype("<f2", copy=False).tobytes())
            bar.advance(len(batches[0]))


def _batches(makers: list[MapMaker], images: Sequence[DenseImage], batch_size: int) -> Iterator[list[Tensor]]:
    """For each network a batch of the same images; an image is decoded once for all, ahead of the networks."""

    def read(one: DenseImage) -> list[Tensor]:
        image = open_image(one.path)
        made: dict[str, Tensor] = {}
        result = []
        for maker in makers:
            key = json.dumps(maker.layout.preprocessing.to_dict())
            result.append(made[key] if key in made else made.setdefault(key, maker.layout.preprocessing(image)))
        return result

    starts = range(0, len(images), batch_size)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1), "decode") as pool:

        def submit(start: int) -> list[Future[list[Tensor]]]:
            return [pool.submit(read, p) for p in images[start : start + batch_size]]

        ahead = submit(0)
        for start in starts:
            waiting, ahead = ahead, submit(start + batch_size)
            read_ones = [future.result() for future in waiting]
            yield [torch.stack([one[i] for one in read_ones]) for i in range(len(makers))]


def maps_of_image(maker: MapMaker, image: Image.Image) -> Tensor:
    """[1, rows · columns, C], rounded to float16 as the maps that heads are trained on."""
    return maker(maker.layout.preprocessing(image)[None]).half().float()
