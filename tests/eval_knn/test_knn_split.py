"""Looking through a labeled set, and the split of it."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from knn_images import CLASSES, PER_CLASS, paint

from eval_knn.evaluator import groups_to_keep_apart
from panendofm.atlas import (
    GallerySplitConfig,
    Keys,
    LabeledImages,
    image_groups,
    load_or_make_gallery_split,
    read_labeled_images,
)
from panendofm.atlas.labeled.gallery_split import SplitEntry, SplitSettings, make_gallery_split
from panendofm.runtime.errors import UserError


def look(root: Path, cache: Path) -> LabeledImages:
    return read_labeled_images(root, cache)


def entries(images: LabeledImages, bits: int = 52, seed: int = 0) -> dict[str, SplitEntry]:
    return make_gallery_split(images, SplitSettings(0.5, bits, seed)).images


@pytest.fixture
def own_copy(labeled_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(labeled_folder, tmp_path / "copy"))


def test_folders(labeled_folder: Path, tmp_path: Path) -> None:
    images = look(labeled_folder, tmp_path)
    assert images.class_names == list(CLASSES) and len(images) == len(CLASSES) * PER_CLASS
    assert np.bincount(images.labels).tolist() == [PER_CLASS] * len(CLASSES)
    assert np.array_equal(np.asarray(images[PER_CLASS]), np.asarray(paint(1, 0)))


def test_second_look_reads_no_image(own_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = look(own_copy, tmp_path / "cache")
    read: list[str] = []
    monkeypatch.setattr(
        "panendofm.atlas.labeled.images.field_of_view_hash", lambda image: read.append("one") or np.zeros(32, "u1")
    )
    assert look(own_copy, tmp_path / "cache").sha256 == first.sha256
    assert read == []
    paint(0, 99).save(own_copy / "dyed" / "00.png")
    changed = look(own_copy, tmp_path / "cache")
    assert read == ["one"] and changed.sha256 != first.sha256


def test_checksum_is_of_content_not_of_place(own_copy: Path, labeled_folder: Path, tmp_path: Path) -> None:
    assert look(own_copy, tmp_path / "a").sha256 == look(labeled_folder, tmp_path / "b").sha256


def test_bad_images_are_counted_and_left_out(
    own_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_copy / "polyp" / "03.png").write_bytes((own_copy / "polyp" / "03.png").read_bytes()[:500])
    (own_copy / "polyp" / "zero.jpg").touch()
    (own_copy / "empty").mkdir()
    (own_copy / "polyp" / ".hidden.png").write_bytes(b"")
    (own_copy / "polyp" / "notes.txt").write_text("not an image")
    for _ in range(2):  # the second time from memory
        images = look(own_copy, tmp_path / "cache")
        assert [r.name for r in images.skipped] == ["polyp/03.png", "polyp/zero.jpg"]
        assert len(images) == len(CLASSES) * PER_CLASS - 1 and images.class_names == list(CLASSES)
        said = capsys.readouterr().out
        assert "2 of 57 images" in said and "polyp/03.png" in said
        assert "the class 'empty'" in said and "no images" in said


@pytest.mark.parametrize("kind", ["absent", "no folders", "empty folders", "one class"])
def test_sets_that_can_not_be_used(kind: str, own_copy: Path, tmp_path: Path) -> None:
    root = tmp_path / "set"
    if kind != "absent":
        root.mkdir()
    if kind == "empty folders":
        (root / "a").mkdir()
        (root / "b").mkdir()
    if kind == "one class":
        shutil.copytree(own_copy / "polyp", root / "polyp")
    with pytest.raises(UserError, match=str(root)) as error:
        look(root, tmp_path / "cache")
    assert "one folder" in str(error.value) and "\n" not in str(error.value)


def write_shards(root: Path, with_cls: bool) -> None:
    root.mkdir()
    for shard in range(2):
        with tarfile.open(root / f"shard-{shard}.tar", "w") as archive:
            for label, name in enumerate(CLASSES):
                for number in range(shard, PER_CLASS, 2):
                    buffer = io.BytesIO()
                    paint(label, number).save(buffer, "PNG")
                    details = {"video": f"{name}-{number // 4}"} | ({} if with_cls else {"class": name})
                    members = {"png": buffer.getvalue(), "json": json.dumps(details).encode()}
                    if with_cls:
                        members["cls"] = name.encode()
                    for ending, content in members.items():
                        info = tarfile.TarInfo(f"{name}_{number:02d}.{ending}")
                        info.size = len(content)
                        archive.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize("with_cls", [True, False])
def test_shards(with_cls: bool, tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", with_cls)
    images = read_labeled_images(tmp_path / "shards", tmp_path / "cache", Keys("class", "video"))
    assert images.class_names == list(CLASSES) and len(images) == len(CLASSES) * PER_CLASS
    row = [r.name for r in images.records].index("shard-1.tar/polyp_05.png")
    assert np.array_equal(np.asarray(images[row]), np.asarray(paint(2, 5)))
    groups = image_groups(images.records, 0)
    videos = np.array([record.links[0] for record in images.records])
    for video in set(videos.tolist()):
        assert len(set(groups[videos == video].tolist())) == 1, "a video's frames are one group"
    assert len(set(groups.tolist())) == len(set(videos.tolist()))


def test_shards_without_labels(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", with_cls=False)
    with pytest.raises(UserError, match=r"shard-0\.tar.*no label.*data\.label_key"):
        look(tmp_path / "shards", tmp_path / "cache")


# ------------------------------------------------------------------------------------------------------ split


@pytest.fixture
def with_copies(own_copy: Path) -> Path:
    """Re-encoded copies of some images, one of them in another class."""
    for number in range(4):
        paint(0, number).resize((100, 86)).save(own_copy / "dyed" / f"copy{number}.jpg", quality=70)
    paint(1, 5).save(own_copy / "ulcer" / "stray.jpg", quality=80)
    return own_copy


def test_near_duplicates_stay_on_one_side(with_copies: Path, tmp_path: Path) -> None:
    images = look(with_copies, tmp_path)
    content = entries(images, bits=30)
    for number in range(4):
        original, copy = content[f"dyed/{number:02d}.png"], content[f"dyed/copy{number}.jpg"]
        assert (original.group, original.side) == (copy.group, copy.side)
    assert content["normal/05.png"].group == content["ulcer/stray.jpg"].group
    sides = {}
    for entry in content.values():
        assert sides.setdefault(entry.group, entry.side) == entry.side
    assert {entry.side for entry in content.values()} == {"gallery", "query"}


@pytest.mark.parametrize("fraction", [0.5, 0.75])
def test_classes_keep_their_shares(labeled_folder: Path, tmp_path: Path, fraction: float) -> None:
    images = look(labeled_folder, tmp_path)
    split = load_or_make_gallery_split(images, GallerySplitConfig(gallery_fraction=fraction), tmp_path)
    counts = np.bincount(images.labels[split.gallery], minlength=4)
    assert (abs(counts - fraction * PER_CLASS) <= 1).all()
    assert sorted([*split.gallery, *split.queries]) == list(range(len(images)))


def test_the_same_everywhere_and_another_with_another_seed(
    own_copy: Path, labeled_folder: Path, tmp_path: Path
) -> None:
    here, there = look(labeled_folder, tmp_path / "a"), look(own_copy, tmp_path / "b")
    assert entries(here) == entries(there)
    sides = [[entry.side for entry in entries(here, seed=seed).values()] for seed in (0, 1)]
    assert sides[0] != sides[1]


def test_the_file_decides(labeled_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, file = look(labeled_folder, tmp_path), tmp_path / "split.json"
    first = load_or_make_gallery_split(images, GallerySplitConfig(file=str(file)), tmp_path)
    written = file.read_bytes()
    again = load_or_make_gallery_split(images, GallerySplitConfig(file=str(file), seed=7), tmp_path)
    assert again.sha256 == first.sha256 and file.read_bytes() == written
    assert "the file decides" in capsys.readouterr().out


def test_split_of_other_images_is_refused(own_copy: Path, tmp_path: Path) -> None:
    file = tmp_path / "split.json"
    config = GallerySplitConfig(file=str(file))
    load_or_make_gallery_split(look(own_copy, tmp_path), config, tmp_path)
    paint(0, 77).save(own_copy / "dyed" / "new.png")
    with pytest.raises(UserError, match=r"split\.json.*dyed/new\.png"):
        load_or_make_gallery_split(look(own_copy, tmp_path), config, tmp_path)
    (own_copy / "dyed" / "new.png").unlink()
    paint(0, 78).save(own_copy / "dyed" / "00.png")
    with pytest.raises(UserError, match="an image has changed"):
        load_or_make_gallery_split(look(own_copy, tmp_path), config, tmp_path)
    file.write_text("[]")
    with pytest.raises(UserError, match="not a split file"):
        load_or_make_gallery_split(look(own_copy, tmp_path), config, tmp_path)


def test_leave_one_group_out(with_copies: Path, tmp_path: Path) -> None:
    images = look(with_copies, tmp_path)
    split = load_or_make_gallery_split(
        images, GallerySplitConfig(leave_one_group_out=True, near_duplicate_bits=30), tmp_path
    )
    assert len(split.gallery) == len(images)
    groups = groups_to_keep_apart(split)
    assert groups is not None
    np.testing.assert_array_equal(groups.queries, split.groups[split.queries])
    np.testing.assert_array_equal(groups.gallery, split.groups)


def test_a_class_in_one_group_is_not_evaluated(
    own_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_copy / "rare").mkdir()
    for number in range(3):
        paint(3, 500).save(own_copy / "rare" / f"{number}.jpg", quality=60 + number)
    images = look(own_copy, tmp_path)
    rare = images.class_names.index("rare")
    for whole in (False, True):
        split = load_or_make_gallery_split(
            images, GallerySplitConfig(leave_one_group_out=whole, near_duplicate_bits=30), tmp_path
        )
        assert rare not in images.labels[split.queries]
        assert "1 classes can't be evaluated (rare)" in capsys.readouterr().out
