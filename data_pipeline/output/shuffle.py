"""The external shuffle of phase two: every part is read once, and every shard is written from a few long reads.

The frames that stay are cut, in the order of the plan, into runs of a few hundred megabytes. One task reads the parts
of a run from front to end and writes its frames sorted by key. A shard is a range of keys, so a stretch of every run.
Neither depends on the number of workers.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data_pipeline.output.merge_parts import FrameRows
from data_pipeline.screening.screen_sources import PART_FRAMES, PART_FRAMES_BYTES, PART_SCHEMA
from panendofm.runtime.files import atomic_file
from panendofm.runtime.parquet_files import read_parquet

# What a task holds in memory while it sorts.
RUN_BYTES = 256_000_000


class Piece(NamedTuple):
    """Rows of one part."""

    part: Path
    rows: NDArray[np.int32]


class Stretch(NamedTuple):
    """Consecutive frames of one run."""

    run: Path
    begin: int
    end: int


class Shuffle(NamedTuple):
    """How all frames go through runs into shards."""

    runs: list[list[Piece]]
    stretches: NDArray[np.int64]  # [runs, shards + 1], where in each run the shards begin and end

    def stretches_of(self, shard: int, runs: list[Path]) -> list[Stretch]:
        """What a shard takes of the files of the runs."""
        edges = self.stretches[:, shard : shard + 2].tolist()
        return [Stretch(run, begin, end) for run, (begin, end) in zip(runs, edges, strict=True) if end > begin]


def plan_shuffle(rows: FrameRows, parts: list[Path], shards: int, run_bytes: int = RUN_BYTES) -> Shuffle:
    """Keys are keyed hashes, so their order is a fair shuffle; it is cut into shards of equal numbers of frames."""
    order = np.argsort(rows.keys, kind="stable")
    edges = np.arange(shards + 1) * len(rows) // shards
    shard_of = np.empty(len(rows), np.int32)
    shard_of[order] = np.repeat(np.arange(shards, dtype=np.int32), np.diff(edges))
    run_of = (np.cumsum(rows.sizes) - rows.sizes) // run_bytes
    run_starts = np.flatnonzero(np.diff(run_of, prepend=-1))
    runs, stretches = [], []
    for begin, end in itertools.pairwise([*run_starts.tolist(), len(rows)]):
        runs.append(_pieces(rows, parts, begin, end))
        stretches.append(np.concatenate([[0], np.cumsum(np.bincount(shard_of[begin:end], minlength=shards))]))
    return Shuffle(runs, np.array(stretches))


def _pieces(rows: FrameRows, parts: list[Path], begin: int, end: int) -> list[Piece]:
    of_part = rows.parts[begin:end]
    starts = np.flatnonzero(np.diff(of_part, prepend=-1)).tolist()
    return [
        Piece(parts[int(of_part[a])], rows.numbers[begin + a : begin + b])
        for a, b in itertools.pairwise([*starts, len(of_part)])
    ]


def write_run(path: Path, pieces: list[Piece]) -> None:
    """Read the frames of some parts, once and in order, and write them sorted by key: bytes, and rows as an Arrow file.

    The rows come last: a run counts as written when they are there.
    """
    if path.is_file():
        return
    tables, jpegs = [], []
    for part, numbers in pieces:
        table = read_parquet(part / PART_FRAMES, "remove the part", schema=PART_SCHEMA).take(pa.array(numbers))
        with (part / PART_FRAMES_BYTES).open("rb") as stream:
            for offset, size in zip(*(table.column(name).to_pylist() for name in ("offset", "size")), strict=True):
                stream.seek(offset)
                jpegs.append(stream.read(size))
        tables.append(table)
    rows = pa.concat_tables(tables)
    order = np.argsort(np.array(rows.column("key").to_pylist(), "S"), kind="stable")
    rows = rows.take(pa.array(order))
    with atomic_file(_bytes_of(path)) as target:
        for number in order.tolist():
            target.write(jpegs[number])
    sizes = rows.column("size").to_numpy()
    at = rows.schema.get_field_index("offset")
    rows = rows.set_column(at, PART_SCHEMA.field("offset"), pa.array(np.cumsum(sizes) - sizes, pa.int64()))
    write_rows(path, rows)


def write_rows(path: Path, rows: pa.Table) -> None:
    """A table as an Arrow file of one batch, whose slices can be read without the rest."""
    with atomic_file(path) as stream, pa.ipc.new_file(stream, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())


def read_stretch(stretch: Stretch) -> tuple[pa.Table, list[memoryview]]:
    """The rows of some consecutive frames of a run, and their JPEGs."""
    with pa.memory_map(str(stretch.run)) as file:
        rows = pa.ipc.open_file(file).read_all().slice(stretch.begin, stretch.end - stretch.begin)
        rows = rows.take(pa.array(np.arange(len(rows))))  # a copy: the file is closed
    offsets, sizes = (rows.column(name).to_numpy() for name in ("offset", "size"))
    if not len(rows):
        return rows, []
    with _bytes_of(stretch.run).open("rb") as stream:
        stream.seek(int(offsets[0]))
        content = memoryview(stream.read(int(offsets[-1] + sizes[-1] - offsets[0])))
    starts = (offsets - offsets[0]).tolist()
    return rows, [content[start : start + size] for start, size in zip(starts, sizes.tolist(), strict=True)]


def _bytes_of(run: Path) -> Path:
    return run.with_suffix(".bin")
