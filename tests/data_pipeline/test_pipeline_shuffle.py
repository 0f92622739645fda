"""The external shuffle of phase two: every part is read once, and the bytes are those of a plain sort."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.scale.generated_parts import write_parts
from benchmarks.scale.sharding import phase_two
from data_pipeline.output import shuffle
from data_pipeline.output.merge_parts import collect
from data_pipeline.output.shuffle import plan_shuffle, write_run
from data_pipeline.output.tars import shards_for, write_shard
from data_pipeline.screening.config import DuplicatesConfig
from panendofm.records.shards import read_index

# Of the shards and indexes that the pipeline wrote of these parts when it still read every part once per shard.
SHARDS_OF_BEFORE = "78db689eb009ff8ad5be4386264325dc06d038ab1832887ae77dcf6626109a3a"
FRAMES, SHARDS, SHARD_BYTES = 300, 9, 100_000.0


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_parts(tmp_path_factory.mktemp("generated"), FRAMES, frames_per_part=45, jpeg_bytes=1000)


def digest_of(out: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(out.glob("shard-*")):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@pytest.mark.parametrize("run_bytes", [1, 7_000, 50_000, 10**9])
def test_the_shards_have_the_bytes_of_before_whatever_the_runs(
    parts: list[Path], tmp_path: Path, run_bytes: int
) -> None:
    """Runs of one frame, of a piece of a part, of several parts, and one run of all."""
    phase_two(parts, tmp_path, SHARD_BYTES, run_bytes)
    assert len(list(tmp_path.glob("shard-*.tar"))) == SHARDS
    assert digest_of(tmp_path) == SHARDS_OF_BEFORE
    table = pq.read_table(tmp_path / "manifest.parquet")
    listed = [sample[0] for path in sorted(tmp_path.glob("shard-*.tar")) for sample in read_index(path).samples]
    assert table.column("key").to_pylist() == listed == sorted(listed) and len(set(listed)) == FRAMES
    assert table.column("shard").to_numpy().tolist() == sorted(table.column("shard").to_pylist())


def test_every_byte_of_a_part_is_read_once(parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[str] = Counter()
    plain_open = Path.open

    def counting(path: Path, *words: object, **named: object) -> object:
        opened[str(path)] += path.name == "frames.bin"
        return plain_open(path, *words, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", counting)
    phase_two(parts, tmp_path, SHARD_BYTES, 10**9)
    assert {path: count for path, count in opened.items() if count} == {str(part / "frames.bin"): 1 for part in parts}


def test_what_is_written_already_is_not_written_again(parts: list[Path], tmp_path: Path) -> None:
    """As after a kill: a run and a shard that are whole stay, half a shard is made anew."""
    phase_two(parts, tmp_path, SHARD_BYTES, 50_000)
    rows = collect(parts, DuplicatesConfig()).rows
    plan = plan_shuffle(rows, parts, shards_for(len(rows), int(rows.sizes.sum()), SHARD_BYTES), 50_000)
    runs = sorted((tmp_path / "shuffle").glob("run-*.arrow"))
    inodes = {path: path.stat().st_ino for path in (*runs, *tmp_path.glob("shard-*"))}
    (tmp_path / "shard-000004.index.json").unlink()
    for run, pieces in zip(runs, plan.runs, strict=True):
        write_run(run, pieces)
    for number, tar in enumerate(sorted(tmp_path.glob("shard-*.tar"))):
        rows_file = tmp_path / "shuffle" / f"rows-{number:06d}.arrow"
        write_shard(tar, number, plan.stretches_of(number, runs), rows_file)
    changed = {path.name for path, inode in inodes.items() if path.stat().st_ino != inode}
    assert changed <= {"shard-000004.tar", "shard-000004.index.json"} and digest_of(tmp_path) == SHARDS_OF_BEFORE


def test_a_run_holds_no_more_than_it_may(parts: list[Path]) -> None:
    rows = collect(parts, DuplicatesConfig()).rows
    plan = plan_shuffle(rows, parts, SHARDS, 50_000)
    sizes = {
        (part.name, row): int(size)
        for part_number, part in enumerate(parts)
        for row, size in enumerate(rows.sizes[rows.parts == part_number])
    }
    held = [sum(sizes[piece.part.name, int(row)] for piece in run for row in piece.rows) for run in plan.runs]
    assert sum(held) == int(rows.sizes.sum()) and max(held) <= 50_000 + int(rows.sizes.max())
    assert np.diff(plan.stretches, axis=1).sum() == FRAMES and shuffle.RUN_BYTES < 10**9
