"""What a set of shards holds: one row per frame, counts by reason, the leakage certificate, checksums."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_pipeline.config import PipelineConfig
from data_pipeline.output.merge_parts import Collected
from data_pipeline.planning import Plan, published_settings
from data_pipeline.screening.screen_sources import SourceResult
from panendofm.imaging.leakage import method_of
from panendofm.records.shards import (
    AuditedSource,
    Certificate,
    CorpusCounts,
    GuardedSet,
    Manifest,
    PrivateFolder,
    ShardFolder,
    TextAudit,
    index_name,
)
from panendofm.runtime.files import atomic_file, write_checksums
from panendofm.runtime.names import printable

# Rows of the manifest that are in memory at a time: those of a row group.
_ROW_GROUP = 1 << 20


def write_manifest(
    out: Path,
    config: PipelineConfig,
    made: Plan,
    collected: Collected,
    sets: list[GuardedSet],
    shards: list[str],
    rows: Sequence[Path],
) -> None:
    """Write everything that goes with the shards; the checksums come last and mark the set as whole.

    `rows`: the files of each shard's rows, in the order of the shards.
    """
    files = ShardFolder(out)
    join_rows(rows, files.frames)
    _write_table(collected.examples, files.examples)
    files.write_manifest(_summary(config, made, collected, sets, shards))
    private = PrivateFolder(config.private_dir)
    _write_table(_private_sources(collected), private.sources)
    _write_table(collected.painted, private.painted)
    indexes = [index_name(name) for name in shards]
    described = [path.name for path in (files.frames, files.examples, files.manifest)]
    write_checksums(out, [*shards, *indexes, *described], files.checksums.name)


def join_rows(rows: Sequence[Path], path: Path) -> None:
    """All shards' rows as one Parquet file, a row group at a time."""
    with atomic_file(path) as stream:
        with pa.memory_map(str(rows[0])) as file:
            schema = pa.ipc.open_file(file).schema
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            held, count = [], 0
            for number, file_name in enumerate(rows, 1):
                with pa.OSFile(str(file_name)) as file:
                    held.append(pa.ipc.open_file(file).read_all())
                count += len(held[-1])
                while count >= _ROW_GROUP or (number == len(rows) and count):
                    table = pa.concat_tables(held)
                    writer.write_table(table.slice(0, _ROW_GROUP).combine_chunks(), row_group_size=_ROW_GROUP)
                    held = [table.slice(_ROW_GROUP)]
                    count = len(held[0])


def _write_table(table: pa.Table, path: Path) -> None:
    with atomic_file(path) as stream:
        pq.write_table(table, stream, compression="zstd")


def _summary(
    config: PipelineConfig, made: Plan, collected: Collected, sets: list[GuardedSet], shards: list[str]
) -> Manifest:
    corpora: dict[str, CorpusCounts] = {}
    for source in collected.sources:
        counts = corpora.setdefault(source.corpus, CorpusCounts())
        counts.sources += 1
        counts.seen += source.seen
        counts.kept += source.kept
        counts.broken_files += len(source.problems)
        for reason, count in source.dropped.items():
            counts.dropped[reason] = counts.dropped.get(reason, 0) + count
    licenses = sorted({source.license for source in made.sources})
    return Manifest(
        shards=shards,
        frames=len(collected.rows),
        corpora=corpora,
        left_out=made.left_out,
        licenses=licenses,
        text_audit=_text_audit(collected.sources),
        leakage=_certificate(config, made, collected, sets),
        settings=published_settings(config),
    )


def _text_audit(sources: list[SourceResult]) -> TextAudit:
    """Sums over all sources, and those of which frames with readable text are in the shards, by their hashed names."""
    total: Counter[str] = Counter()
    for source in sources:
        total.update(source.audit)
    kept = [source for source in sources if source.kept]
    return TextAudit(
        **total,
        sources_read=sum(source.audit["after_read"] > 0 for source in kept),
        sources_with_moving_text=sum(source.text_moves for source in kept),
        sources_with_text={
            source.source: AuditedSource(source.audit["after_read"], source.audit["after_text"])
            for source in with_text_left(kept)
        },
    )


def with_text_left(sources: list[SourceResult]) -> list[SourceResult]:
    """The sources with frames in the shards on which the audit still reads text."""
    return [source for source in sources if source.kept and source.audit["after_text"]]


def _certificate(config: PipelineConfig, made: Plan, collected: Collected, sets: list[GuardedSet]) -> Certificate:
    """Which evaluation sets were kept out, how, and what was found."""
    leaks = [leak for source in collected.sources for leak in source.leaks]
    by_set = Counter(s.name for s in sets for leak in leaks if leak.image.startswith(printable(s.name) + "/"))
    return Certificate(
        guarded_sets=[dataclasses.replace(s, frames_dropped=by_set[s.name]) for s in sets],
        frames_checked=sum(source.compared for source in collected.sources),
        frames_dropped=len(leaks),
        images_found=sorted({leak.sha256 for leak in leaks}),
        method=method_of(config.leakage),
        known_overlaps=[dataclasses.asdict(overlap) for overlap in made.overlaps],
    )


def _private_sources(collected: Collected) -> pa.Table:
    """Which hashed name is which file, and what became of it."""
    rows = [
        {
            "corpus": source.corpus,
            "path": source.path,
            "source": source.source,
            "seen": source.seen,
            "kept": source.kept,
            "dropped": sorted(source.dropped.items()),
            "problems": sorted(source.problems.items()),
            "copy_of": source.copy_of,
            "audited": source.audit["after_read"],
            "with_text": source.audit["after_text"],
            "text_moves": source.text_moves,
            "leaks": [vars(leak) for leak in source.leaks],
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
