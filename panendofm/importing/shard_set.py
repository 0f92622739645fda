"""A shard set made of what others prepared.

Tars that hold JPEG images alone stay where they are: the set has links to them and an index of each. All else is packed
into new tars. Nothing is screened, and the set has no leakage certificate: it was not compared with any evaluation set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.importing.hugging_face import HuggingFaceDataset, is_saved_dataset
from panendofm.importing.image_folder import ImageFolder
from panendofm.importing.samples import Sample, Source, as_jpeg
from panendofm.importing.tars import Tars, TarSample
from panendofm.records.shard_tars import written_shard
from panendofm.records.shards import (
    FRAME_SCHEMA,
    CorpusCounts,
    FrameRow,
    Manifest,
    ShardFolder,
    index_name,
    shard_name,
    write_index,
)
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, atomic_file, make_directory, write_checksums
from panendofm.runtime.locks import waiting_lock

_SHARD_BYTES = 256_000_000
_SCHEMA = FRAME_SCHEMA.append(pa.field("shard", pa.int32()))


def import_shards(folder: Path, out: Path, leave_out: Collection[str] = ()) -> None:
    """`out` becomes a shard set of the images in `folder`, with checksums, as `data_pipeline shard` writes it."""
    if out.exists():
        raise UserError(f"out={out} exists already; name another folder, or remove it.")
    _write_set(source_of(folder), out, frozenset(leave_out), checksums=True)


def imported_folder(folder: Path, below: Path) -> Path:
    """The shard set of `folder`, made once and kept below `below`; a change of its files makes another one.

    It has no checksums: reading all of a large collection would delay the first start by hours.
    """
    source = source_of(folder)
    facts = "\n".join([str(folder.resolve()), *source.facts()])
    made = below / f"imported-{hashlib.sha256(facts.encode(errors='surrogateescape')).hexdigest()[:24]}"
    make_directory(below)
    with waiting_lock(below / f".{made.name}.lock"):
        if not ShardFolder(made).manifest.is_file():
            _write_set(source, made, frozenset(), checksums=False)
    return made


def source_of(folder: Path) -> Source:
    """What kind of collection a folder is."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name one with WebDataset tars, images, or a saved dataset.")
    if is_saved_dataset(folder):
        return HuggingFaceDataset(folder)
    tars = Tars(folder)
    if tars.files():
        return tars
    images = ImageFolder(folder)
    if images.files():
        return images
    raise UserError(
        f"{folder} holds no finished shards (manifest.json), no tars, no images, and no saved dataset; check the path."
    )


def _write_set(source: Source, out: Path, leave_out: frozenset[str], checksums: bool) -> None:
    say(f"importing {source.name}: its images are used as they are, and are not compared with evaluation sets")
    with atomic_directory(out) as partial:
        files = ShardFolder(partial)
        rows = _linked(source, partial, leave_out) if isinstance(source, Tars) else None
        if rows is None:
            rows = _packed(source, partial, leave_out)
        if not rows:
            raise UserError(f"{source.name} holds no images; check the path.")
        shards = sorted({shard_name(row["shard"]) for row in rows})
        with atomic_file(files.frames) as stream:
            pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), stream, compression="zstd")
        files.write_manifest(_manifest(rows, shards))
        if checksums:
            described = [files.frames.name, files.manifest.name]
            write_checksums(partial, [*shards, *map(index_name, shards), *described], files.checksums.name)


def _manifest(rows: Sequence[FrameRow], shards: list[str]) -> Manifest:
    corpora: dict[str, CorpusCounts] = {}
    for row in rows:
        counts = corpora.setdefault(row["corpus"], CorpusCounts())
        counts.seen += 1
        counts.kept += 1
    return Manifest(shards=shards, frames=len(rows), corpora=corpora, licenses=["unknown"])


def _row(source: Source, key: str, video: str | None, corpus: str | None, shard: int) -> FrameRow:
    return {"key": key, "video": video, "corpus": corpus or source.name, "licence": "unknown", "shard": shard}


def _linked(source: Tars, folder: Path, leave_out: frozenset[str]) -> list[FrameRow] | None:
    """The rows of tars that need no packing; None when an image is no JPEG."""
    rows: list[FrameRow] = []
    tars = source.files()
    for number, tar in enumerate(track(tars, "indexing", len(tars), "tars")):
        found = sorted(source.index(tar), key=lambda sample: sample.key)
        if not all(sample.jpeg for sample in found):
            for path in folder.iterdir():
                path.unlink()
            return None
        kept = [sample for sample in found if sample.key not in leave_out]
        link = folder / shard_name(number)
        link.symlink_to(tar.resolve())
        write_index(link, [_places(sample) for sample in kept], tar.stat().st_size)
        rows += [_row(source, sample.key, sample.facts.video, sample.facts.corpus, number) for sample in kept]
    return rows


def _places(sample: TarSample) -> tuple[str, int, int, int, int]:
    return sample.key, *sample.image, *sample.record


def _packed(source: Source, folder: Path, leave_out: frozenset[str]) -> list[FrameRow]:
    """Keys are numbers in the order of the source, whatever is left out."""
    rows: list[FrameRow] = []
    counted = enumerate(track(source.samples(), "packing", source.count(), "images"))
    numbered = ((f"{number:09d}", sample) for number, sample in counted)
    kept = ((key, sample) for key, sample in numbered if key not in leave_out)
    for number, group in enumerate(_groups(kept, _SHARD_BYTES)):
        with written_shard(folder / shard_name(number)) as shard:
            for key, sample in group:
                record = {"corpus": sample.corpus or source.name, "video": sample.video}
                shard.add(key, as_jpeg(sample.image, f"{sample.name} of {source.name}"), record)
        rows += [_row(source, key, sample.video, sample.corpus, number) for key, sample in group]
    return rows


def _groups(samples: Iterable[tuple[str, Sample]], most_bytes: int) -> Iterator[list[tuple[str, Sample]]]:
    """As many samples as fill a shard, one after another."""
    group: list[tuple[str, Sample]] = []
    size = 0
    for key, sample in samples:
        if group and size + len(sample.image) > most_bytes:
            yield group
            group, size = [], 0
        group.append((key, sample))
        size += len(sample.image)
    if group:
        yield group
