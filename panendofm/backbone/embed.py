"""`embed`: features of many images as a Parquet table."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from panendofm.backbone.attention import chosen_backend
from panendofm.backbone.features import extract_features
from panendofm.backbone.networks import Network, Reading
from panendofm.backbone.vit import VisionTransformer
from panendofm.imaging.frame_filters.clean import VERSION as CLEANING
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.imaging.images import is_image, open_image
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import atomic_file
from panendofm.runtime.names import printable


@dataclass(frozen=True)
class _Member:
    """An image inside a tar shard: read by its position, so that threads need no common file object."""

    shard: Path
    name: str
    start: int
    size: int


class ImageList:
    """Images of files, folders and WebDataset shards, by position; `keys` names them."""

    def __init__(self, sources: Sequence[Path]) -> None:
        images = [item for source in sources for item in _images_of(source)]
        if not images:
            raise UserError(f"no images found in {', '.join(map(str, sources))}; name images, folders or .tar shards.")
        self.keys = [key for key, _ in images]
        self._items = [item for _, item in images]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Image.Image:
        item = self._items[index]
        if isinstance(item, Path):
            return open_image(item)
        with naming_path("read", item.shard), item.shard.open("rb") as stream:
            stream.seek(item.start)
            content = stream.read(item.size)
        return open_image(io.BytesIO(content), f"{item.shard}/{item.name}")


def _images_of(source: Path) -> Iterator[tuple[str, Path | _Member]]:
    if source.suffix == ".tar":
        yield from _members_of(source)
    elif source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.suffix == ".tar":
                yield from _members_of(path)
            elif is_image(path) and path.is_file():
                yield path.relative_to(source).as_posix(), path
    elif source.is_file():
        yield source.name, source
    else:
        raise UserError(f"cannot read {source}: it does not exist; check the path.")


def _members_of(shard: Path) -> Iterator[tuple[str, _Member]]:
    try:
        with naming_path("read", shard), tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isfile() and is_image(member.name):
                    yield f"{shard.name}/{member.name}", _Member(shard, member.name, member.offset_data, member.size)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise UserError(f"cannot read the shard {shard}: it is not a whole tar file; make it again.") from error


def embed(
    network: Network,
    images: ImageList,
    out: Path,
    reading: Reading,
    batch_size: int,
    device: torch.device,
    half_precision: bool = False,
    clean: bool = False,
) -> tuple[int, int]:
    """Write `key` and `features` (a list of float32) of every image; returns rows and feature width."""
    module = network.load().to(device)
    where = device.type
    if isinstance(module, VisionTransformer):
        some_tokens = torch.empty(0, device=device)
        where += f", attention {chosen_backend(module.execution.attention, some_tokens, groups=1)}"
    say(f"{network.architecture} ({network.source}) on {where}")
    computed = extract_features(
        module,
        images,
        network.preprocessing,
        batch_size,
        device,
        reading.kind,
        half_precision=half_precision,
        label="embed",
        clean=Cleaner() if clean else None,
    )
    (choice,) = reading.choices
    features = choice.of(computed).numpy()
    rows, width = features.shape
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(features).reshape(-1)), width)
    # What made the features goes with them.
    about = {
        "weights_sha256": network.weights_sha256,
        "architecture": network.architecture,
        "preprocessing": str(network.preprocessing.to_dict()),
        "features": str(reading.kind.to_dict()),
        "reading": choice.name,
        "cleaned": CLEANING if clean else "no",
    }
    table = pa.table({"key": [printable(key) for key in images.keys], "features": column}).replace_schema_metadata(
        about
    )
    with atomic_file(out) as stream:
        pq.write_table(table, stream)
    return rows, width
