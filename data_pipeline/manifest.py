"""What a set of shards holds: one row per frame, counts by reason, the leakage certificate, checksums."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from data_pipeline.config import PipelineConfig
from data_pipeline.duplicates import DuplicatesConfig, SourceHashes, copies_across
from data_pipeline.examples import EXAMPLE_SCHEMA, choose
from data_pipeline.planning import Plan, published_settings
from data_pipeline.work import PART_COLUMNS, PART_EXAMPLES, PART_FRAMES, PART_PAINTED, PART_SCHEMA
from records.shards import Certificate, GuardedSet, Manifest, PrivateFolder, ShardFolder, index_name
from runtime.files import atomic_file, read_json, write_checksums
from runtime.leakage import COVERED, THUMBNAIL_PX
from runtime.names import printable
from runtime.parquet_files import read_parquet

_EXAMPLES_PER_REASON = 24


@dataclass
class Collected:
    """The outcome of phase one, with copies across the run settled."""

    frames: pa.Table  # one row per frame that stays, with the number of its part
    sources: list[dict[str, Any]]  # one per source, in plan order
    examples: pa.Table
    painted: pa.Table  # with frames as they came: for the private folder only

    @property
    def dropped(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for source in self.sources:
            total.update(source["dropped"])
        return total


def collect(parts: list[Path], config: DuplicatesConfig) -> Collected:
    """Read all parts and drop the copies."""
    tables, sources = [], []
    examples = [EXAMPLE_SCHEMA.empty_table()]
    painted = EXAMPLE_SCHEMA.empty_table()
    for number, part in enumerate(parts):
        table = read_parquet(part / PART_FRAMES, "remove the part", schema=PART_SCHEMA)
        tables.append(table.append_column("part", pa.array([number] * len(table), pa.int32())))
        examples.append(read_parquet(part / PART_EXAMPLES, "remove the part"))
        if len(examples) > 100:  # those of all parts would not fit into memory
            examples = [choose(pa.concat_tables(examples), _EXAMPLES_PER_REASON)]
        of_part = read_parquet(part / PART_PAINTED, "remove the part")
        painted = choose(pa.concat_tables([painted, of_part]), _EXAMPLES_PER_REASON) if len(of_part) else painted
        sources += read_json(part / "sources.json")
    frames = pa.concat_tables(tables)
    copies = copies_across(_hashes_by_source(frames, sources), config)
    for source in sources:
        source["copy_of"] = None
        if source["source"] in copies:
            reason, source["copy_of"] = copies[source["source"]]
            source["dropped"][reason] = source["kept"]
            source["kept"] = 0
    stays = [source not in copies for source in frames.column("source").to_pylist()]
    shown = choose(pa.concat_tables(examples), _EXAMPLES_PER_REASON)
    return Collected(frames.filter(pa.array(stays, pa.bool_())), sources, shown, painted)


def _hashes_by_source(frames: pa.Table, sources: list[dict[str, Any]]) -> list[SourceHashes]:
    rows: dict[str, list[tuple[bytes, float, int]]] = {source["source"]: [] for source in sources}
    single: set[str] = set()
    columns = (frames.column(name).to_pylist() for name in ("source", "hash", "seconds", "frame", "single"))
    for source, text, seconds, frame, is_single in zip(*columns, strict=True):
        rows[source].append((bytes.fromhex(text), seconds, frame))
        if is_single:
            single.add(source)
    return [
        SourceHashes(
            source,
            source in single,
            np.frombuffer(b"".join(row[0] for row in inside), np.uint8).reshape(len(inside), -1),
            _times(inside),
        )
        for source, inside in rows.items()
        if inside
    ]


def _times(rows: list[tuple[bytes, float, int]]) -> NDArray[np.float64]:
    """When the frames were shown; pictures of a sequence have no time but their number."""
    seconds = np.array([row[1] for row in rows])
    return seconds if seconds.any() else np.array([row[2] for row in rows], np.float64)


def write_manifest(
    out: Path, config: PipelineConfig, made: Plan, collected: Collected, sets: list[GuardedSet], shards: list[str]
) -> None:
    """Write everything that goes with the shards; the checksums come last and mark the set as whole."""
    frames = collected.frames.sort_by([("shard", "ascending"), ("key", "ascending")])
    frames = frames.drop_columns([*PART_COLUMNS, "part"])
    files = ShardFolder(out)
    _write_table(frames, files.frames)
    _write_table(collected.examples, files.examples)
    files.write_manifest(_summary(config, made, collected, sets, shards))
    private = PrivateFolder(config.private_dir)
    _write_table(_private_sources(collected), private.sources)
    _write_table(collected.painted, private.painted)
    indexes = [index_name(name) for name in shards]
    described = [path.name for path in (files.frames, files.examples, files.manifest)]
    write_checksums(out, [*shards, *indexes, *described], files.checksums.name)


def _write_table(table: pa.Table, path: Path) -> None:
    with atomic_file(path) as stream:
        pq.write_table(table, stream, compression="zstd")


def _summary(
    config: PipelineConfig, made: Plan, collected: Collected, sets: list[GuardedSet], shards: list[str]
) -> Manifest:
    corpora: dict[str, Any] = {}
    for source in collected.sources:
        row = corpora.setdefault(
            source["corpus"], {"sources": 0, "seen": 0, "kept": 0, "broken_files": 0, "dropped": {}}
        )
        row["sources"] += 1
        row["seen"] += source["seen"]
        row["kept"] += source["kept"]
        row["broken_files"] += len(source["problems"])
        for reason, count in source["dropped"].items():
            row["dropped"][reason] = row["dropped"].get(reason, 0) + count
    licences = sorted({source.licence for source in made.sources})
    return Manifest(
        shards=shards,
        frames=collected.frames.num_rows,
        corpora=corpora,
        left_out=made.left_out,
        licences=licences,
        text_audit=_text_audit(collected.sources),
        leakage=_certificate(config, made, collected, sets),
        settings=published_settings(config),
    )


def _text_audit(sources: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums over all sources, and those of which frames with readable text are in the shards, by their hashed names."""
    total: Counter[str] = Counter()
    for source in sources:
        total.update(source["audit"])
    if not total:
        return {}
    kept = [source for source in sources if source["kept"]]
    return {
        **dict(sorted(total.items())),
        "sources_read": sum(source["audit"].get("after_read", 0) > 0 for source in kept),
        "sources_with_moving_text": sum(source["text_moves"] for source in kept),
        "sources_with_text": {
            source["source"]: {"read": source["audit"]["after_read"], "text": source["audit"]["after_text"]}
            for source in with_text_left(kept)
        },
    }


def with_text_left(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sources with frames in the shards on which the audit still reads text."""
    return [source for source in sources if source["kept"] and source["audit"].get("after_text", 0)]


def _certificate(config: PipelineConfig, made: Plan, collected: Collected, sets: list[GuardedSet]) -> Certificate:
    """Which evaluation sets were kept out, how, and what was found."""
    leaks = [leak for source in collected.sources for leak in source["leaks"]]
    by_set = Counter(s.name for s in sets for leak in leaks if leak["image"].startswith(s.name + "/"))
    return Certificate(
        guarded_sets=[dataclasses.replace(s, frames_dropped=by_set[s.name]) for s in sets],
        frames_checked=sum(source["compared"] for source in collected.sources),
        frames_dropped=len(leaks),
        images_found=sorted({leak["sha256"] for leak in leaks}),
        method={
            "quick_search": "8x8 detail vectors of the field of view, in eight symmetries and many windows",
            "comparison": f"correlation of {THUMBNAIL_PX}x{THUMBNAIL_PX} detail pictures after affine alignment (ECC)",
            "covers": list(COVERED),
            **{name: getattr(config.leakage, name) for name in ("min_similarity", "candidates", "min_correlation")},
        },
        known_overlaps=[dataclasses.asdict(overlap) for overlap in made.overlaps],
    )


def _private_sources(collected: Collected) -> pa.Table:
    """Which hashed name is which file, and what became of it."""
    rows = [
        {
            "corpus": source["corpus"],
            "path": printable(source["path"]),
            "source": source["source"],
            "seen": source["seen"],
            "kept": source["kept"],
            "dropped": sorted(source["dropped"].items()),
            "problems": sorted((printable(file), why) for file, why in source["problems"].items()),
            "copy_of": source["copy_of"],
            "audited": source["audit"].get("after_read", 0),
            "with_text": source["audit"].get("after_text", 0),
            "text_moves": source["text_moves"],
            "leaks": [{**leak, "image": printable(leak["image"])} for leak in source["leaks"]],
        }
        for source in collected.sources
    ]
    pairs, problems = pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.string())
    leak = pa.struct(
        [("frame", pa.int64()), ("image", pa.string()), ("sha256", pa.string()), ("correlation", pa.float64())]
    )
    columns = [("corpus", pa.string()), ("path", pa.string()), ("source", pa.string()), ("seen", pa.int64())]
    columns += [("kept", pa.int64()), ("dropped", pairs), ("problems", problems), ("copy_of", pa.string())]
    columns += [("audited", pa.int64()), ("with_text", pa.int64()), ("text_moves", pa.bool_())]
    return pa.Table.from_pylist(rows, pa.schema([*columns, ("leaks", pa.list_(leak))]))
