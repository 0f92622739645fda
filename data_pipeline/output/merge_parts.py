"""The outcome of phase one: which frames stay, where their bytes lie, and what became of every source.

The driver holds a few numbers per frame; whole rows are read by the tasks that shuffle them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data_pipeline.reporting.examples import EXAMPLE_SCHEMA, choose
from data_pipeline.screening.config import DuplicatesConfig
from data_pipeline.screening.duplicates import SourceHashes, copies_across
from data_pipeline.screening.screen_sources import PART_EXAMPLES, PART_FRAMES, PART_PAINTED, PART_SOURCES, SourceResult
from panendofm.imaging.image_hash import HASH_BYTES
from panendofm.records.documents import read_document
from panendofm.runtime.parquet_files import read_parquet

EXAMPLES_PER_REASON = 24
_COLUMNS = ("key", "source", "hash", "seconds", "frame", "single", "size")


@dataclass(frozen=True)
class FrameRows:
    """Where each frame lies, in the order of the plan."""

    keys: NDArray[np.bytes_]  # [N]
    sizes: NDArray[np.int64]  # [N], bytes of the JPEG
    parts: NDArray[np.int32]  # [N]
    numbers: NDArray[np.int32]  # [N], row within the part

    def __len__(self) -> int:
        return len(self.keys)


@dataclass
class Collected:
    """The outcome of phase one, with copies across the run settled."""

    rows: FrameRows  # of the frames that stay
    sources: list[SourceResult]  # one per source, in plan order
    examples: pa.Table
    painted: pa.Table  # with frames as they came: for the private folder only

    @property
    def dropped(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for source in self.sources:
            total.update(source.dropped)
        return total


class _Part(NamedTuple):
    """The frames of one part."""

    keys: NDArray[np.bytes_]  # [n]
    sizes: NDArray[np.int64]  # [n]
    sources: NDArray[np.int32]  # [n], number in the run's list of sources
    hashes: NDArray[np.uint8]  # [n, 32]
    seconds: NDArray[np.float64]  # [n]
    frames: NDArray[np.float64]  # [n]
    singles: NDArray[np.bool_]  # [n]


def collect(parts: list[Path], config: DuplicatesConfig) -> Collected:
    """Read all parts and drop the copies."""
    read: list[_Part] = []
    sources: list[SourceResult] = []
    examples = [EXAMPLE_SCHEMA.empty_table()]
    painted = EXAMPLE_SCHEMA.empty_table()
    for part in parts:
        screened = read_document(list[SourceResult], part / PART_SOURCES, "the sources of a part", "remove the part")
        number_of = {source.source: number for number, source in enumerate(screened, len(sources))}
        sources += screened
        read.append(_read_part(part, number_of))
        examples.append(read_parquet(part / PART_EXAMPLES, "remove the part"))
        if len(examples) > 100:  # those of all parts would not fit into memory
            examples = [choose(pa.concat_tables(examples), EXAMPLES_PER_REASON)]
        of_part = read_parquet(part / PART_PAINTED, "remove the part")
        painted = choose(pa.concat_tables([painted, of_part]), EXAMPLES_PER_REASON) if len(of_part) else painted
    sizes = [len(part.keys) for part in read]
    columns = _Part(*(np.concatenate(column) for column in zip(*read, strict=True)))
    del read
    stays = ~_drop_copies(columns, sources, config)[columns.sources]
    rows = FrameRows(
        columns.keys[stays],
        columns.sizes[stays],
        np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[stays],
        np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])[stays],
    )
    return Collected(rows, sources, choose(pa.concat_tables(examples), EXAMPLES_PER_REASON), painted)


def _read_part(part: Path, number_of: dict[str, int]) -> _Part:
    table = read_parquet(part / PART_FRAMES, "remove the part", _COLUMNS)
    column = {name: table.column(name).to_pylist() for name in _COLUMNS}
    return _Part(
        np.array(column["key"], "S20"),
        np.array(column["size"], np.int64),
        np.array([number_of[source] for source in column["source"]], np.int32),
        np.frombuffer(bytes.fromhex("".join(column["hash"])), np.uint8).reshape(-1, HASH_BYTES),
        np.array(column["seconds"], np.float64),
        np.array(column["frame"], np.float64),
        np.array(column["single"], bool),
    )


def _drop_copies(columns: _Part, sources: list[SourceResult], config: DuplicatesConfig) -> NDArray[np.bool_]:
    """Which sources are copies of others [S]; notes it with them."""
    copies = copies_across(_hashes_by_source(columns, sources), config)
    for source in sources:
        if source.source in copies:
            reason, source.copy_of = copies[source.source]
            source.dropped[reason] = source.kept
            source.kept = 0
    return np.array([source.source in copies for source in sources], bool)


def _hashes_by_source(columns: _Part, sources: list[SourceResult]) -> list[SourceHashes]:
    """A source's frames are neighbors: each lies in one part, which was written source by source."""
    edges = np.flatnonzero(np.diff(columns.sources, prepend=-1, append=-1))
    found = []
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        some = slice(begin, end)
        # When the frames were shown; images of a sequence have no time but their number.
        times = columns.seconds[some] if columns.seconds[some].any() else columns.frames[some]
        source = sources[int(columns.sources[begin])].source
        found.append(SourceHashes(source, bool(columns.singles[some].any()), columns.hashes[some], times))
    return found
