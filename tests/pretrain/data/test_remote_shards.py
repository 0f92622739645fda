"""Shards in an S3-compatible store and on a web server: a real server, with latency, errors and cut answers."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_runs import assert_same_run, run_ranks, words_of, write_shards
from object_store import BUCKET, ObjectStore, object_store

from data_pipeline.output.uploading import upload_shards
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_checksums
from pretrain.data.config import CacheConfig
from pretrain.data.storage.shards import ShardSet, open_shards

URL = f"s3://{BUCKET}/sets/a"
SHARDS = 4


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_shards(tmp_path_factory.mktemp("local") / "shards", videos=16, shards=SHARDS)
    write_checksums(folder, [path.name for path in folder.iterdir()])
    return folder


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def opened(url: str, tmp_path: Path) -> ShardSet:
    return open_shards(url, CacheConfig(str(tmp_path / "cache"), 1.0), tmp_path / "indexes")


def samples(shards: ShardSet) -> list[tuple[str, bytes]]:
    return [(shards.key(row), shards.read(row)) for row in range(len(shards))]


def test_an_interrupted_upload_goes_on_with_what_is_missing(local: Path, store: ObjectStore, tmp_path: Path) -> None:
    store.refuse_puts_after = 5
    with pytest.raises(UserError, match=r"cannot write .*: access is denied; check the credentials"):
        upload_shards(local, URL)
    store.refuse_puts_after = None
    with pytest.raises(UserError, match=r"SHA256SUMS.* does not exist"):  # the checksums go last: it is no set yet
        opened(URL, tmp_path)
    total = len(list(local.iterdir()))
    assert upload_shards(local, URL) == total - 5
    assert upload_shards(local, URL) == 0
    (local / "manifest.json").write_bytes((local / "manifest.json").read_bytes())  # its content decides, not its time
    assert upload_shards(local, URL) == 0
    assert samples(opened(URL, tmp_path)) == samples(open_shards(local))


def test_faults_of_the_store_change_no_byte(local: Path, store: ObjectStore, tmp_path: Path) -> None:
    upload_shards(local, URL)
    store.faults = ("error", "cut", "error", "cut")
    shards = opened(URL, tmp_path)
    assert shards.sha256 == open_shards(local).sha256
    assert samples(shards) == samples(open_shards(local))
    assert set(store.gets.values()) == {5} and len(store.gets) == SHARDS  # four went wrong, in the way that was asked


def test_half_an_object_is_fetched_again_and_refused_when_it_stays(
    local: Path, store: ObjectStore, tmp_path: Path
) -> None:
    upload_shards(local, URL)
    store.faults = ("truncated",)
    assert samples(opened(URL, tmp_path / "a")) == samples(open_shards(local))
    store.client().put_object(Bucket=BUCKET, Key="sets/a/shard-000001.tar", Body=b"half")
    with pytest.raises(UserError, match=r"shard-000001\.tar does not have the checksum"):
        samples(opened(URL, tmp_path / "b"))
    store.client().put_object(Bucket=BUCKET, Key="sets/a/shard-000002.index.json", Body=b"{}")
    with pytest.raises(UserError, match=r"shard-000002\.index\.json does not have its checksum"):
        opened(URL, tmp_path / "c")


def test_what_can_not_be_reached_is_said_in_one_sentence(local: Path, store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"set data\.cache\.folder"):
        open_shards(URL)
    with pytest.raises(UserError, match="must not hold a password"):
        opened("https://user:secret@example.org/shards", tmp_path)
    with pytest.raises(UserError, match="SHA256SUMS of s3://endoscopy/nowhere: it does not exist"):
        opened(f"s3://{BUCKET}/nowhere", tmp_path)
    with pytest.raises(UserError, match="write s3://BUCKET/FOLDER"):
        upload_shards(local, "https://example.org/x")


def test_a_web_server_serves_as_well(local: Path, tmp_path: Path) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(local))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shards = opened(f"http://127.0.0.1:{server.server_port}/", tmp_path)
        assert samples(shards) == samples(open_shards(local))
        server.shutdown()


@pytest.mark.slow
def test_a_run_from_a_faulty_store_has_the_weights_of_a_local_one(
    local: Path, store: ObjectStore, tmp_path: Path
) -> None:
    upload_shards(local, URL)
    store.latency_seconds, store.faults = 0.2, ("error", "truncated", "cut")
    run_ranks(words_of(tmp_path / "local", local), 1)
    elsewhere = {"data__shards": URL, "data__cache__folder": tmp_path / "cache", "data__index": tmp_path / "indexes"}
    run_ranks(words_of(tmp_path / "remote", local, **elsewhere), 1)
    assert_same_run(tmp_path / "local", tmp_path / "remote", 12)
    lines = [json.loads(line) for line in (tmp_path / "remote" / "metrics.jsonl").read_text().splitlines()]
    waits = [line["speed"]["data_wait_share"] for line in lines]
    assert waits[0] > 0.1 and max(waits[-3:]) < waits[0]  # the shards are fetched once, at the start
    assert set(store.gets.values()) == {4} and len(store.gets) == SHARDS
