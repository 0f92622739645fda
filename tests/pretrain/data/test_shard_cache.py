"""Shards read whole into a local cache: the same order and bytes, a budget, shared by processes, never torn."""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of, write_shards

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_checksums
from pretrain.config import PretrainConfig
from pretrain.data.config import CacheConfig, DataConfig
from pretrain.data.loader import LoadedBatch, Loader, RankBatches, order_of, shards_of
from pretrain.data.order.batch_sampler import BatchSampler
from pretrain.data.storage.shard_cache import FetchAhead, ShardCache
from pretrain.data.storage.shards import ShardSet, open_shards


def with_checksums(folder: Path) -> Path:
    write_checksums(folder, [path.name for path in folder.iterdir()])
    return folder


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 images in ten shards, with checksums."""
    return with_checksums(write_shards(tmp_path_factory.mktemp("many") / "shards", shards=10))


def gb(size: float) -> float:
    return size / 1e9


def largest(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.glob("*.tar"))


def cached(folder: Path, cache: Path, shards: int, command: str | None = None) -> ShardSet:
    """The shards with a cache that has room for so many of them."""
    return open_shards(folder, CacheConfig(str(cache), gb(shards * largest(folder)), command))


def copies(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.suffix == ".tar"]


def held_bytes(cache: Path) -> int:
    """Of all files, at a moment when none is being renamed or removed."""
    with (cache / ".folder.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return sum(path.stat().st_size for path in cache.iterdir())


def test_copies_have_the_bytes_of_the_shards_within_the_budget(many: Path, tmp_path: Path) -> None:
    plain, ours = open_shards(many), cached(many, tmp_path, 3)
    assert ours.cache is not None
    assert [path.stat().st_size for path in plain.shards] == plain.shard_bytes.tolist()
    for row in [*range(len(plain)), *range(0, len(plain), 7)]:
        assert ours.read(row) == plain.read(row)
        assert held_bytes(tmp_path) <= ours.cache.budget_bytes
        ours.close_removed()
        assert len(ours._open) <= 3, "a removed shard is still held open, and its room with it"
    assert len(copies(tmp_path)) == 3
    for copy in copies(tmp_path):
        assert copy.read_bytes() == (many / copy.name.split("-", 1)[1]).read_bytes()


def test_what_was_used_last_stays(many: Path, tmp_path: Path) -> None:
    ours = cached(many, tmp_path, 3)
    cache = ours.cache
    assert cache is not None
    names = [path.name for path in ours.shards]
    for number in (0, 1, 2, 0, 3, 4):
        cache.fetch(names[number], int(ours.shard_bytes[number]))
        time.sleep(0.01)  # times of files have a grain
    assert sorted(path.name.split("-", 1)[1] for path in copies(tmp_path)) == [names[0], names[3], names[4]]


def test_a_command_may_bring_the_shards(many: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"  # indexes and manifests only
    shutil.copytree(many, bare, ignore=shutil.ignore_patterns("*.tar"))
    ours, plain = cached_elsewhere(bare, many, tmp_path / "cache", f"cat {many}/{{shard}}"), open_shards(many)
    assert ours.sha256 == plain.sha256
    assert [ours.read(row) for row in range(len(plain))] == [plain.read(row) for row in range(len(plain))]
    with pytest.raises(UserError, match=r"could not fetch the shard shard-000000\.tar: 'cat /no/\S+' ended"):
        cached_elsewhere(bare, many, tmp_path / "other", "cat /no/{shard}").read(0)
    with pytest.raises(UserError, match=r"cannot run data\.cache\.fetch_command nosuchprogram: it does not exist"):
        cached_elsewhere(bare, many, tmp_path / "other", "nosuchprogram {shard}").read(0)
    with pytest.raises(UserError, match=r"the shard .* is missing"):
        open_shards(bare)


def cached_elsewhere(bare: Path, many: Path, cache: Path, command: str) -> ShardSet:
    return open_shards(bare, CacheConfig(str(cache), gb(3 * largest(many)), command))


def test_a_wrong_checksum_is_never_used(many: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "shards"
    shutil.copytree(many, damaged)
    tar = damaged / "shard-000004.tar"
    content = bytearray(tar.read_bytes())
    content[5000] ^= 1
    tar.write_bytes(content)
    ours = cached(damaged, tmp_path / "cache", 10)
    row = int((ours.shard_of == 4).nonzero()[0][0])
    with pytest.raises(UserError, match=r"the shard shard-000004\.tar does not have the checksum"):
        ours.read(row)
    assert copies(tmp_path / "cache") == []
    assert held_bytes(tmp_path / "cache") == 0
    shutil.copy(many / tar.name, tar)  # restored: the run goes on
    assert ours.read(row) == open_shards(many).read(row)


def _read_all(folder: Path, cache: Path, shards: int, turn: int, log: Path) -> None:
    """In a process of its own: read every sample, shard after shard from another place, and note the bytes' hash."""
    ours = cached(folder, cache, shards, f"bash -c 'echo $0 >> {log}; cat {folder}/$0' {{shard}}")
    digests = {}
    for number in range(len(ours)):
        row = (number + turn * len(ours) // 2) % len(ours)
        ours.close_removed()
        digests[row] = hashlib.sha256(ours.read(row)).hexdigest()
        assert held_bytes(cache) <= shards * largest(folder)
    plain = open_shards(folder)
    assert digests == {row: hashlib.sha256(plain.read(row)).hexdigest() for row in range(len(plain))}


@pytest.mark.parametrize("room", [10, 4])
def test_two_processes_share_a_cache(many: Path, tmp_path: Path, room: int) -> None:
    fork = multiprocessing.get_context("fork")
    log = tmp_path / "fetched.txt"
    processes = [fork.Process(target=_read_all, args=(many, tmp_path / "c", room, i, log)) for i in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    fetched = log.read_text().split()
    assert set(fetched) == {path.name for path in many.glob("*.tar")}
    if room == 10:
        assert len(fetched) == 10, "a shard was copied twice"


def _copy_slowly(folder: Path, cache: Path) -> None:
    """Copies shard 0 through a command that stops in the middle."""
    cached(folder, cache, 3, f"bash -c 'head -c 20000 {folder}/$0; sleep 60' {{shard}}").read(0)


def test_a_killed_copy_leaves_nothing_torn(many: Path, tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_copy_slowly, args=(many, tmp_path))
    process.start()
    deadline = time.monotonic() + 30
    while not any(".partial-" in path.name for path in tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    assert process.pid is not None
    # Another process that wants the same shard waits for it, and takes over when it is gone.
    waiting = multiprocessing.get_context("fork").Process(target=_read_first, args=(many, tmp_path))
    waiting.start()
    time.sleep(0.3)
    assert waiting.is_alive()
    assert copies(tmp_path) == []
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    waiting.join(30)
    assert waiting.exitcode == 0
    (copy,) = copies(tmp_path)
    assert copy.read_bytes() == (many / "shard-000000.tar").read_bytes()
    assert not [path for path in tmp_path.iterdir() if ".partial-" in path.name]


def _read_first(folder: Path, cache: Path) -> None:
    assert cached(folder, cache, 3).read(0) == open_shards(folder).read(0)


def test_a_process_forked_during_a_copy_does_not_keep_its_lock(many: Path, tmp_path: Path) -> None:
    cache = cached(many, tmp_path, 3).cache
    assert cache is not None
    with cache._lock("a copy") as ours:
        assert ours
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
    with cache._lock("a copy", wait=False) as ours:
        assert ours
    child.kill()
    child.join()


def test_the_remains_of_a_killed_copy_make_room_for_others(many: Path, tmp_path: Path) -> None:
    ours = cached(many, tmp_path, 2)
    remains = tmp_path / ".0123456789ab-shard-000009.tar.partial-copy"
    remains.write_bytes(bytes(largest(many)))
    for row in (ours.shard_of == 1).nonzero()[0][:1].tolist() + (ours.shard_of == 2).nonzero()[0][:1].tolist():
        ours.read(row)
    assert not remains.exists()
    assert len(copies(tmp_path)) == 2


def config_of(shards: Path, **changes: object) -> PretrainConfig:
    return load_config(PretrainConfig, None, words_of(Path("unused"), shards, **changes))


def batches(config: PretrainConfig, steps: range) -> tuple[list[LoadedBatch], ShardSet]:
    shards = shards_of(config.data)
    order, patch_px = order_of(config.data, config.batch, 0, shards), config.model.vit().patch_px
    answers = RankBatches(shards, order, config.augment, config.masks, patch_px, config.batch.microgroup_images, 0)
    loader = Loader(answers, BatchSampler(order, config.batch, 0, 1, steps), config.data)
    loaded = [loader.next() for _ in steps]
    loader.close()
    return loaded, shards


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_reads_the_same_through_the_cache(many: Path, tmp_path: Path, workers: int) -> None:
    changes = {"data__window_shards": 2, "data__workers": workers}
    budget = gb(4 * largest(many))
    plain, _ = batches(config_of(many, **changes), range(12))
    config = config_of(many, **changes, data__cache__folder=tmp_path, data__cache__budget_gb=budget)
    ours, shards = batches(config, range(12))
    assert [b.keys for b in ours] == [b.keys for b in plain]
    assert all(a.batch.global_crops.equal(b.batch.global_crops) for a, b in zip(ours, plain, strict=True))
    assert held_bytes(tmp_path) <= budget * 1e9 + 1
    # 192 samples of shards with 12 each, two shards at a time.
    assert 2 <= len(copies(tmp_path)) <= 4
    assert shards.cache is not None


def test_the_next_window_is_fetched_ahead(many: Path, tmp_path: Path) -> None:
    shards = cached(many, tmp_path, 10)
    assert shards.cache is not None
    ahead = FetchAhead(shards.cache)
    ahead.want([(shards.shards[s].name, int(shards.shard_bytes[s])) for s in (3, 8)])
    deadline = time.monotonic() + 30
    while len(copies(tmp_path)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ahead.close()
    assert sorted(path.name.split("-", 1)[1] for path in copies(tmp_path)) == ["shard-000003.tar", "shard-000008.tar"]


def test_settings_that_can_not_work_are_refused(many: Path, tmp_path: Path) -> None:
    data = DataConfig(str(many), window_shards=2, cache=CacheConfig(str(tmp_path), gb(4 * largest(many))))
    shards_of(data)
    with pytest.raises(UserError, match=r"budget_gb=.* is too small: two windows of shards take up to"):
        shards_of(replace(data, window_shards=3))
    with pytest.raises(UserError, match=r"is too small.*all shards"):
        shards_of(replace(data, window_shards=None))
    with pytest.raises(UserError, match=r"fetch_command needs a data\.cache\.folder"):
        config_of(many, data__cache__fetch_command="'cat {shard}'")
    with pytest.raises(UserError, match=r"must hold \{shard\}"):
        config_of(many, data__cache__fetch_command="cat", data__cache__folder=tmp_path)
    tiny = ShardCache(CacheConfig(str(tmp_path), gb(10)), many, "x", {})
    with pytest.raises(UserError, match=r"budget_gb=1e-08 is less than one shard"):
        tiny.fetch("shard-000000.tar", largest(many))


@pytest.mark.slow
def test_a_run_through_the_cache_is_the_run_without_it(many: Path, tmp_path: Path) -> None:
    """Two ranks with a worker each share a cache, the shards come from a command, and the run is moved in between."""
    windows = {"data__window_shards": 2}
    run_ranks(words_of(tmp_path / "plain", many, **windows), 2)
    bare = tmp_path / "bare"
    shutil.copytree(many, bare, ignore=shutil.ignore_patterns("*.tar"))
    streamed = {
        **windows,
        "data__workers": 1,
        "data__cache__folder": tmp_path / "cache",
        "data__cache__budget_gb": gb(4 * largest(many)),
        "data__cache__fetch_command": f"'cat {many}/{{shard}}'",
    }
    run = tmp_path / "streamed"
    run_ranks(words_of(run, many, **windows, run__stop_at="5 steps"), 2)
    run_ranks(words_of(run, bare, **streamed), 2)
    assert_same_run(tmp_path / "plain", run, 12)
    assert len({key for line in metrics_of(run) for key in line["keys"]}) == 120
    assert held_bytes(tmp_path / "cache") <= 4 * largest(many)
