"""Features of a frozen network for a list of images, in batches, on any device, on any number of ranks.

Each rank takes an even share of the images, and every rank returns all features in the order of the images: no row
is padded, repeated or dropped.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn

from panendofm.backbone.preprocessing import Preprocessing
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.imaging.images import UnreadableImageError, open_image
from panendofm.runtime.console import progress
from panendofm.runtime.errors import UserError

# Batches that are decoded while the network is busy with an earlier one.
_BATCHES_AHEAD = 2


class Images(Protocol):
    """Anything with a length whose items are PIL images or paths: a list of paths, a map-style dataset."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class FeatureKind:
    """Which tokens make up a feature.

    The cls tokens of the last `layers` blocks, earlier block first, each through the final norm; then, with
    `patch_mean`, the mean of the last block's patch tokens. Width: D · (layers + patch_mean).

    Or, with `blocks` (-1 is the last one): the cls token and the mean patch token of each of these, in their order, all
    through the final norm. Width: D · 2 · len(blocks). What is read out of it, `backbone.reading` says.
    """

    layers: int = 1
    patch_mean: bool = False
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))  # a list where it comes from JSON
        if self.layers < 1:
            raise UserError(f"features take at least 1 layer, not {self.layers}.")
        if self.blocks and (self.layers, self.patch_mean) != (1, False):
            raise UserError("features are either of the last layers or of named blocks, not of both.")

    def to_dict(self) -> dict[str, Any]:
        """Without `blocks` where there are none: keys and heads stored before there were any stay valid."""
        values = asdict(self)
        blocks = values.pop("blocks")
        return values | ({"blocks": list(blocks)} if blocks else {})

    def of(self, model: nn.Module, images: Tensor) -> Tensor:
        """Features [B, width] of images [B, 3, H, W]. A network that returns a plain tensor [B, D] is taken as is."""
        if self.blocks:
            last = model.intermediate(images, -min(self.blocks))  # type: ignore[operator]
            both = [(last[block].cls, last[block].patches.mean(dim=1)) for block in self.blocks]
            return torch.cat([token for pair in both for token in pair], dim=1)
        if self.layers > 1:
            tokens = model.intermediate(images, self.layers)  # type: ignore[operator]
        else:
            output = model(images)
            if isinstance(output, Tensor):
                if self.patch_mean:
                    raise UserError(f"{type(model).__name__} has no patch tokens; set patch_mean=false.")
                return output.flatten(1)
            tokens = [output]
        parts = [layer.cls for layer in tokens]
        if self.patch_mean:
            parts.append(tokens[-1].patches.mean(dim=1))
        return torch.cat(parts, dim=1)


CLS_TOKEN = FeatureKind()


def extract_features(
    model: nn.Module,
    images: Images | Sequence[Any],
    preprocessing: Preprocessing,
    batch_size: int = 64,
    device: torch.device | str | None = None,
    kind: FeatureKind = CLS_TOKEN,
    threads: int | None = None,
    half_precision: bool = False,
    label: str = "features",
    group: dist.ProcessGroup | None = None,
    clean: Cleaner | None = None,
) -> Tensor:
    """Features [N, D] (float32, on the CPU) of N images; with a process group up, its ranks share the work.

    `device` is where batches go (default: where the model's parameters are). `half_precision` computes in bfloat16 by
    autocast; `clean` makes images like training frames first. All ranks run the model equally often, so a model
    sharded over the ranks (FSDP) works too. An image that can't be read is a `UserError` on every rank, after all the
    others have been read.
    """
    if batch_size < 1:
        raise UserError(f"batch_size must be at least 1, not {batch_size}.")
    device = torch.device(device) if device is not None else _device_of(model)
    rank, world = rank_and_world(group)
    first, last = share_of(len(images), rank, world)
    # A sharded model needs all ranks in each forward pass: a rank with one batch less runs on a blank image.
    largest = max(share_of(len(images), r, world)[1] - share_of(len(images), r, world)[0] for r in range(world))
    passes = -(-largest // batch_size)
    parts: list[Tensor] = []
    unreadable: list[str] = []
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    precision: AbstractContextManager[Any] = (
        torch.autocast(device.type, torch.bfloat16) if half_precision else nullcontext()
    )
    batches = _batches(images, range(first, last), preprocessing, batch_size, threads, unreadable, clean)
    try:
        with torch.no_grad(), precision, progress(label, len(images), "images") as bar:
            for _ in range(passes):
                batch = next(batches, None)  # [B, 3, crop, crop]
                blank = batch is None
                if batch is None:
                    batch = torch.zeros(1, 3, preprocessing.crop_px, preprocessing.crop_px)
                output = kind.of(model, batch.to(device, non_blocking=True)).float().cpu()
                parts.append(output[:0] if blank else output)
                bar.advance(min(parts[-1].shape[0] * world, len(images) - bar.done))
    finally:
        for module, training in modes:
            module.training = training
    _raise_together(unreadable, group)
    mine = torch.cat(parts) if parts else torch.empty(0, 0)
    return gather_rows(mine, len(images), group)


def cleaned(image: Image.Image | Path | str, clean: Cleaner) -> Image.Image:
    """An image, or that of a file, as training frames are."""
    opened = image if isinstance(image, Image.Image) else open_image(image)
    return Image.fromarray(clean(np.asarray(opened.convert("RGB"))))


def device_of(name: str | None, key: str) -> torch.device:
    """The device that the configuration's `key` names; None and "auto" take the GPU when there is one."""
    if name is None or name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"{key}: '{name}' is no device; use cpu, cuda or cuda:0.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"{key} is {name}, but torch sees no GPU here; use {key}=cpu.")
    return device


def _device_of(model: nn.Module) -> torch.device:
    parameter = next(model.parameters(), None)
    return parameter.device if parameter is not None else torch.device("cpu")


def _batches(
    images: Images | Sequence[Any],
    indices: range,
    preprocessing: Preprocessing,
    batch_size: int,
    threads: int | None,
    unreadable: list[str],
    clean: Cleaner | None,
) -> Iterator[Tensor]:
    """Decode in threads (Pillow works outside the interpreter's lock), a few batches ahead of the network."""

    def read(index: int) -> Tensor:
        try:
            return preprocessing(images[index] if clean is None else cleaned(images[index], clean))
        except UnreadableImageError as error:
            unreadable.append(str(error))
            return torch.zeros(3, preprocessing.crop_px, preprocessing.crop_px)

    starts = iter(range(indices.start, indices.stop, batch_size))
    waiting: deque[list[Future[Tensor]]] = deque()
    with ThreadPoolExecutor(threads or min(8, os.cpu_count() or 1), "decode") as pool:

        def submit() -> None:
            start = next(starts, None)
            if start is not None:
                waiting.append([pool.submit(read, i) for i in range(start, min(start + batch_size, indices.stop))])

        for _ in range(_BATCHES_AHEAD + 1):
            submit()
        while waiting:
            batch = torch.stack([future.result() for future in waiting.popleft()])
            submit()
            yield batch


def rank_and_world(group: dist.ProcessGroup | None = None) -> tuple[int, int]:
    """This process's number and how many there are; (0, 1) without a process group."""
    if not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(group), dist.get_world_size(group)


def share_of(count: int, rank: int, world: int) -> tuple[int, int]:
    """First and one-past-last row of a rank's contiguous share; shares differ by at most one row."""
    return count * rank // world, count * (rank + 1) // world


def gather_rows(mine: Tensor, count: int, group: dist.ProcessGroup | None = None) -> Tensor:
    """Join the ranks' shares, as `share_of` cut them, to [count, …], the same on every rank."""
    rank, world = rank_and_world(group)
    if world == 1:
        return mine
    rows = torch.empty(count, *mine.shape[1:], dtype=mine.dtype)
    first, last = share_of(count, rank, world)
    rows[first:last] = mine
    for source in range(world):
        first, last = share_of(count, source, world)
        if last > first:
            broadcast(rows[first:last], source, group)
    return rows


def broadcast(tensor: Tensor, source: int, group: dist.ProcessGroup | None = None) -> None:
    """Overwrite a CPU tensor on all ranks with the one of group rank `source`, over whatever link the group has."""
    from_rank = dist.get_global_rank(group, source) if group is not None else source
    if dist.get_backend(group) != "nccl":
        dist.broadcast(tensor, from_rank, group=group)
        return
    on_gpu = tensor.cuda()
    dist.broadcast(on_gpu, from_rank, group=group)
    tensor.copy_(on_gpu)


def _raise_together(messages: list[str], group: dist.ProcessGroup | None) -> None:
    """Fail on every rank when one met a bad image: a rank that failed alone would leave the others waiting."""
    _, world = rank_and_world(group)
    everyone: list[Any] = [messages]
    if world > 1:
        everyone = [None] * world
        dist.all_gather_object(everyone, messages, group=group)
    bad = sorted(message for some in everyone for message in some)
    if bad:
        more = f" ({len(bad) - 1} more images can't be read either.)" if len(bad) > 1 else ""
        raise UnreadableImageError(bad[0] + more)
