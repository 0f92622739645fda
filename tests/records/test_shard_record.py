"""The index of a shard and the fingerprint of an evaluation set."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from panendofm.records.shards import ShardFolder, fingerprint, index_name, read_index, shard_name, write_index
from panendofm.runtime.errors import UserError


def test_an_index_of_before_gets_its_tars_size(tmp_path: Path) -> None:
    """Format 1 did not say it: what is computed is the size of a real tar, for sizes around block borders."""
    for number, size in enumerate((0, 1, 511, 512, 513, 9000, 10240)):
        path, samples = tmp_path / shard_name(number), []
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            places: list[int] = []
            for name in ("a.jpg", "a.json"):
                member = tarfile.TarInfo(name)
                member.size = size
                places += [tar.offset + 512, size]
                tar.addfile(member, io.BytesIO(b"x" * size))
            samples.append(["a", *places])
        path.with_name(index_name(path.name)).write_text(
            json.dumps({"format": 1, "shard": path.name, "samples": samples})
        )
        assert read_index(path).tar_bytes == path.stat().st_size


def test_an_index_reads_back_equal(tmp_path: Path) -> None:
    path = tmp_path / shard_name(3)
    write_index(path, [("a", 512, 10, 1536, 20)], 10240)
    index = read_index(path)
    assert (index.shard, index.samples, index.tar_bytes) == (path.name, [("a", 512, 10, 1536, 20)], 10240)


def test_an_index_of_the_future_or_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / shard_name(0)
    file = path.with_name(index_name(path.name))
    file.write_text(json.dumps({"format": 99, "shard": path.name, "samples": []}))
    with pytest.raises(UserError, match="'format'"):
        read_index(path)
    file.write_text(json.dumps({"format": 2, "shard": path.name, "samples": [["a", 1]]}))
    with pytest.raises(UserError, match=file.name):
        read_index(path)


def test_a_manifest_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    ShardFolder(tmp_path).manifest.write_text('{"shards": ["a.tar"')
    with pytest.raises(UserError, match=r"manifest\.json"):
        ShardFolder(tmp_path).read_manifest()


def test_a_fingerprint_depends_on_contents_and_names_only() -> None:
    lines = "aa  x.jpg\nbb  y.jpg\n"
    expected = hashlib.sha256(lines.encode()).hexdigest()
    assert fingerprint([("bb", "deep/er/y.jpg"), ("aa", "x.jpg")]) == expected
    assert fingerprint([("bb", "x.jpg"), ("aa", "y.jpg")]) != expected
