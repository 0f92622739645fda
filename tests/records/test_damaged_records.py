"""Records that were cut, overwritten or written by something else: one sentence that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from launch.jobs.record import events_of, read_job
from panendofm.records.metrics import MetricsFile, read_metrics
from panendofm.records.release import ReleaseFolder
from panendofm.records.run import RunFolder, read_checkpoint_info
from panendofm.records.shards import ShardFolder, read_index
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_checksums, read_json, read_json_object
from panendofm.runtime.parquet_files import read_parquet

BAD_TEXT = {
    "not UTF-8": b'{"step": "\xff\xfe"}',
    "UTF-16": '{"step": 1}'.encode("utf-16"),
    "empty": b"",
    "cut": b'{"step": 1, "vi',
    "a list": b"[]",
    "a number": b"7",
    "deep": b"[" * 100_000,
    "zeros": bytes(512),
}
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "checkpoint.json": ("checkpoint.json", read_checkpoint_info),
    "release.json": ("release.json", lambda folder: ReleaseFolder(folder).read()),
    "manifest.json": ("manifest.json", lambda folder: ShardFolder(folder).read_manifest()),
    "an index": ("shard-000000.index.json", lambda folder: read_index(folder / "shard-000000.tar")),
    "run.json": ("run.json", lambda folder: RunFolder(folder).read_info()),
    "rollbacks.json": ("rollbacks.json", lambda folder: RunFolder(folder).read_rollbacks()),
    "job.json": ("job.json", read_job),
    "any JSON": ("x.json", lambda folder: read_json_object(folder / "x.json")),
}


@pytest.mark.parametrize("bad", BAD_TEXT)
@pytest.mark.parametrize("reader", READERS)
def test_documents(tmp_path: Path, reader: str, bad: str) -> None:
    name, read = READERS[reader]
    (tmp_path / name).write_bytes(BAD_TEXT[bad])
    with pytest.raises(UserError, match=name) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", [b"garbage", b"\xff\xfe", b"7", b'{"loss": 1}', b'{"step": "x"}', b"[" * 100_000])
def test_a_garbage_line_of_the_metrics(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl: line 2"):
        read_metrics(path)
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"metrics\.jsonl: line 2"):
        MetricsFile(path, 2)
    assert path.read_bytes() == before


def test_a_garbage_line_of_a_jobs_events(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b'{"event": "started"}\n12\n')
    with pytest.raises(UserError, match=r"events\.jsonl: line 2"):
        events_of(tmp_path)


def test_links_to_themselves(tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to(tmp_path / "x.json")
    for read in (read_json, read_checksums):
        with pytest.raises(UserError, match="a link that leads to itself"):
            read(tmp_path / "x.json")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_cut_tables(tmp_path: Path, share: float) -> None:
    path = tmp_path / "manifest.parquet"
    pq.write_table(pa.table({"key": [f"k{i}" for i in range(1000)]}), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError, match=r"manifest\.parquet: it is no Parquet file, or it is damaged; restore it"):
        read_parquet(path, "restore it")


def test_tables_that_are_absent_or_others(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.parquet: it does not exist; restore it"):
        read_parquet(tmp_path / "x.parquet", "restore it")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "x.parquet")
    with pytest.raises(UserError, match="it has no column 'key'"):
        read_parquet(tmp_path / "x.parquet", "restore it", ["key"])
