"""The index of all samples: what it holds, built once, shared by processes, and noticed when it is damaged."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_runs import write_shards

from panendofm.records.shards import ShardFolder, read_index
from panendofm.runtime.errors import UserError
from pretrain.data.order.order import DataOrder
from pretrain.data.order.samples_by_video import sort_samples
from pretrain.data.storage.sample_videos import number_videos
from pretrain.data.storage.shards import open_shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(tmp_path_factory.mktemp("indexed") / "shards", videos=12, frames=5, shards=4, side=16)


def files_of(indexes: Path) -> list[Path]:
    return sorted(path for path in indexes.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_it_holds_what_the_shards_and_the_manifest_say(folder: Path, tmp_path: Path) -> None:
    """Against the plain reading of every file; the checksum is that by which older runs know their shards."""
    shards = open_shards(folder, indexes=tmp_path)
    frames = {row["key"]: row for row in pq.read_table(ShardFolder(folder).frames).to_pylist()}
    digest, corpora, videos, row = hashlib.sha256(), [], [], 0
    for number, path in enumerate(sorted(folder.glob("shard-*.tar"))):
        samples = sorted(read_index(path).samples)
        digest.update(json.dumps([path.name, samples]).encode())
        for key, offset, size, *_ in samples:
            places = (shards.offsets[row], shards.sizes[row], shards.shard_of[row])
            assert (shards.key(row), *places) == (key, offset, size, number)
            corpora.append(frames[key]["corpus"])
            videos.append(f"{frames[key]['corpus']}/{frames[key]['video'] or frames[key]['source'] or key}")
            row += 1
    assert row == len(shards) == 60
    corpus_of = np.unique(corpora, return_inverse=True)[1].astype(np.int64)
    video_of = np.unique(videos, return_inverse=True)[1].astype(np.int64)
    digest.update(corpus_of.tobytes() + video_of.tobytes())
    assert shards.sha256 == digest.hexdigest()
    ours, plain = DataOrder(shards.runs, 3, 8, 4), DataOrder(sort_samples(corpus_of, video_of), 3, 8, 4)
    for step in range(20):
        np.testing.assert_array_equal(ours.batch(step).rows, plain.batch(step).rows)


def test_images_without_video_or_source_stand_for_themselves() -> None:
    frames = pa.table(
        {
            "key": ["k0", "k1", "k2", "k3", "k4", "k5"],
            "corpus": ["b", "b", "a", "a", "a-c", "b"],
            "video": ["v", "v", None, None, "v", None],
            "source": ["s", "t", "s", None, "s", None],
        }
    )
    numbered = number_videos(frames)
    names = ["b/v", "b/v", "a/s", "a/k3", "a-c/v", "b/k5"]
    assert numbered.corpora == ["a", "a-c", "b"]
    assert numbered.corpus_of.tolist() == [2, 2, 0, 0, 1, 2]
    assert [sorted(set(names))[n] for n in numbered.video_of.tolist()] == names


def test_it_is_built_once_and_anew_for_changed_shards(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "shards"
    own.mkdir()
    for path in folder.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    open_shards(own, indexes=tmp_path / "i")
    built = {path: (path.stat().st_ino, path.read_bytes()) for path in files_of(tmp_path / "i")}
    assert built
    open_shards(own, indexes=tmp_path / "i")
    assert built == {path: (path.stat().st_ino, path.read_bytes()) for path in files_of(tmp_path / "i")}
    index = own / "shard-000001.index.json"
    content = json.loads(index.read_text())
    content["samples"][0][1] = -1
    index.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"shard-000001\.index\.json: the place of .* lies outside the shard"):
        open_shards(own, indexes=tmp_path / "i")


@pytest.mark.parametrize("name", ["samples.arrow", "videos.arrow", "columns.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_index_is_named_and_built_anew(
    folder: Path, tmp_path: Path, name: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = open_shards(folder, indexes=tmp_path)
    expected = [(whole.key(row), whole.read(row)) for row in range(len(whole))]
    damaged = next(path for path in files_of(tmp_path) if path.name == name)
    content = damaged.read_bytes()
    damaged.unlink()  # a new file: the old one is mapped
    if how != "gone":
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        damaged.write_bytes(flipped if how == "flipped" else content[:middle])
    again = open_shards(folder, indexes=tmp_path)
    assert [(again.key(row), again.read(row)) for row in range(len(again))] == expected
    assert damaged.read_bytes() == content
    said = capsys.readouterr()
    assert (f"{name} is damaged; it is built anew" in said.out + said.err) == (how != "gone" or name != "columns.json")


def _open_and_report(folder: Path, indexes: Path, answer: multiprocessing.SimpleQueue[tuple[str, list[int]]]) -> None:
    shards = open_shards(folder, indexes=indexes)
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    inodes = {int(words[4]) for words in maps if words[-1].startswith(str(indexes))}
    answer.put((shards.sha256, sorted(inodes)))


def test_processes_that_start_together_share_one_map(folder: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    processes = [context.Process(target=_open_and_report, args=(folder, tmp_path, answer)) for _ in range(4)]
    for process in processes:
        process.start()
    answers = [answer.get() for _ in processes]
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
    on_disk = sorted(path.stat().st_ino for path in files_of(tmp_path) if path.suffix == ".arrow")
    assert answers == [(open_shards(folder, indexes=tmp_path).sha256, on_disk)] * 4


def test_a_folder_that_can_not_be_made_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot create the folder .*file/i"):
        open_shards(folder, indexes=tmp_path / "file" / "i")


@pytest.mark.parametrize("what", ["no column", "no corpus"])
def test_a_manifest_without_what_is_needed_is_refused(folder: Path, tmp_path: Path, what: str) -> None:
    own = tmp_path / "shards"
    own.mkdir()
    for path in folder.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    frames = pq.read_table(ShardFolder(own).frames)
    if what == "no column":
        frames = frames.drop_columns(["video"])
    else:
        names = [None, *frames.column("corpus").to_pylist()[1:]]
        frames = frames.set_column(frames.schema.get_field_index("corpus"), "corpus", pa.array(names))
    pq.write_table(frames, ShardFolder(own).frames)
    with pytest.raises(UserError, match="has no column 'video'" if what == "no column" else "1 samples have no corpus"):
        open_shards(own, indexes=tmp_path / "i")
