"""Adding a labeled set takes its path and nothing else, whether it is a folder, a table or shards."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from knn_images import CLASSES

from panendofm.api import evaluate_knn
from panendofm.runtime.errors import UserError


def as_table(folder: Path, path: Path) -> Path:
    lines = ["file,label"]
    lines += [f"{file},{file.parent.name}" for file in sorted(folder.glob("*/*.png"))]
    path.write_text("\n".join(lines) + "\n")
    return path


def as_shards(folder: Path, shards: Path) -> Path:
    shards.mkdir()
    with tarfile.open(shards / "shard-0.tar", "w") as archive:
        for file in sorted(folder.glob("*/*.png")):
            key = f"{file.parent.name}_{file.stem}"
            for ending, content in (("png", file.read_bytes()), ("cls", file.parent.name.encode())):
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return shards


def test_a_new_set_is_a_path(labeled_folder: Path, tmp_path: Path) -> None:
    sources = (
        labeled_folder,
        as_table(labeled_folder, tmp_path / "set.csv"),
        as_shards(labeled_folder, tmp_path / "shards"),
    )
    keys = ("split.leave_one_group_out=true", "bootstrap.replicates=0", f"cache={tmp_path / 'cache'}", "ks=[5,20]")
    documents = [evaluate_knn("pixels", source, *keys) for source in sources]
    assert documents[0].data.classes == list(CLASSES)
    for document in documents[1:]:
        assert document.data.classes == documents[0].data.classes
        assert document.values == documents[0].values


def test_an_image_with_two_labels_is_named(labeled_folder: Path, tmp_path: Path) -> None:
    first, second = sorted(labeled_folder.glob("*/*.png"))[:2]
    table = tmp_path / "two.csv"
    table.write_text(f"file,label\n{first},a|b\n{second},a\n")
    with pytest.raises(UserError, match=r"00\.png' is listed more than once or with several labels"):
        evaluate_knn("pixels", table, f"cache={tmp_path / 'cache'}")
