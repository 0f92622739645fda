"""`data.shards` takes images that others prepared: tars, a folder of images, a saved Hugging Face dataset."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from engine_runs import metrics_of, run_ranks, words_of
from PIL import Image

from panendofm.records.shards import ShardFolder
from panendofm.runtime.errors import UserError
from pretrain.data.storage.shards import ShardSet, open_shards

IMAGES = 24


def pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (40, 40, 3), np.uint8)


def encoded(number: int, kind: str = "jpeg") -> bytes:
    if kind == "jpeg":
        return bytes(simplejpeg.encode_jpeg(pixels(number)))
    stream = io.BytesIO()
    Image.fromarray(pixels(number)).save(stream, kind)
    return stream.getvalue()


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def webdataset(folder: Path, kind: str = "jpg") -> Path:
    """Two tars whose keys are the same, with labels beside the images, as `webdataset` writes them."""
    for tar in range(2):
        members = {}
        for number in range(IMAGES // 2):
            image = encoded(tar * IMAGES // 2 + number, "jpeg" if kind == "jpg" else kind)
            members |= {f"{number:04d}.{kind}": image, f"{number:04d}.cls": b"3"}
        write_tar(folder / f"train-{tar}.tar", members)
    return folder


def image_folder(folder: Path) -> Path:
    for number in range(IMAGES):
        kind, suffix = ("png", "png") if number % 5 == 0 else ("jpeg", "JPG")
        path = folder / f"case{number % 3}" / f"{number:03d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(number, kind))
    return folder


def hugging_face(folder: Path) -> Path:
    import datasets

    rows = {"image": [{"bytes": encoded(n), "path": None} for n in range(IMAGES)], "label": [0] * IMAGES}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    data = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": data, "test": data.select(range(2))}).save_to_disk(
        str(folder), num_shards={"train": 2, "test": 1}
    )
    return folder


def contents(shards: ShardSet) -> list[bytes]:
    return [shards.read(row) for row in range(len(shards))]


SOURCES = {"tars": webdataset, "images": image_folder, "hugging_face": hugging_face}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_run_trains_on_every_image(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](tmp_path / "source")
    run = tmp_path / "run"
    words = [*words_of(run, source, schedule__total="3 steps", batch__images=8), f"data.index={tmp_path / 'index'}"]
    run_ranks(words, 2)
    seen = [key for row in metrics_of(run) for key in row.get("keys", [])]
    assert len(set(seen)) == IMAGES == len(seen), "three steps of eight are one epoch"


def test_jpeg_tars_stay_where_they_are(tmp_path: Path) -> None:
    source = webdataset(tmp_path / "source")
    shards = open_shards(source, indexes=tmp_path / "index")
    assert sorted(contents(shards)) == sorted(encoded(number) for number in range(IMAGES))
    assert all(path.resolve().parent == source for path in shards.shards)
    assert shards.certificate is None, "nobody compared these images with evaluation sets"
    assert len(shards.runs.sizes) == IMAGES, "each image is a video of its own"
    stored = sum(
        path.lstat().st_size for path in (tmp_path / "index").rglob("*") if path.is_file() and not path.is_symlink()
    )
    assert stored < 60_000, "an index, not a copy"


def test_an_index_is_built_once_and_again_after_a_change(tmp_path: Path) -> None:
    source = webdataset(tmp_path / "source")
    first = open_shards(source, indexes=tmp_path / "index")
    made = first.files.manifest.stat().st_mtime_ns
    assert open_shards(source, indexes=tmp_path / "index").files.manifest.stat().st_mtime_ns == made
    write_tar(source / "more" / "train-0.tar", {"new.jpg": encoded(99)})
    assert len(open_shards(source, indexes=tmp_path / "index")) == IMAGES + 1


def test_metadata_of_the_tars_is_used(tmp_path: Path) -> None:
    members = {}
    for number in range(6):
        record = {"video": number // 3, "corpus": "ours" if number < 3 else "theirs"}
        members |= {f"{number}.jpg": encoded(number), f"{number}.json": json.dumps(record).encode()}
    members["6.jpg"] = encoded(6)
    members["6.json"] = b"{not json"
    write_tar(tmp_path / "source" / "a.tar", members)
    shards = open_shards(tmp_path / "source", indexes=tmp_path / "index")
    assert shards.corpora == ["ours", "source", "theirs"]
    assert sorted(shards.runs.sizes.tolist()) == [1, 3, 3]


def test_other_formats_are_packed_as_jpeg_with_the_same_pixels(tmp_path: Path) -> None:
    shards = open_shards(webdataset(tmp_path / "source", "png"), indexes=tmp_path / "index")
    assert len(shards) == IMAGES
    for row, image in enumerate(contents(shards)):
        decoded = simplejpeg.decode_jpeg(image).astype(int)
        assert np.abs(decoded - pixels(row)).mean() < 12  # noise is the hardest image for JPEG


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: folder.mkdir(), "holds no finished shards"),
        (lambda folder: None, "is no folder"),
        (lambda folder: write_tar(folder / "a.tar", {"0.jpg": encoded(0), "0.png": encoded(0, "png")}), "two images"),
        (lambda folder: (folder.mkdir(), (folder / "a.tar").write_bytes(b"\x1f\x8b" + bytes(600))), "uncompressed tar"),
        (lambda folder: (folder.mkdir(), (folder / "shard-000000.index.json").write_text("{}")), "no finished shards"),
        (lambda folder: (folder.mkdir(), (folder / "a.jpg").write_bytes(b"no image")), "cannot read the image a.jpg"),
        (lambda folder: (folder.mkdir(), (folder / "state.json").write_text("{}")), "dataset_info.json"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(prepare: object, message: str, tmp_path: Path) -> None:
    prepare(tmp_path / "source")  # type: ignore[operator]
    with pytest.raises(UserError, match=message):
        open_shards(tmp_path / "source", indexes=tmp_path / "index")
    leftovers = [path for path in (tmp_path / "index").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert leftovers == [] or not ShardFolder(leftovers[0].parent).manifest.exists()


def test_a_dataset_whose_rows_name_files(tmp_path: Path) -> None:
    import datasets

    folder = image_folder(tmp_path / "images")
    paths = sorted(str(path) for path in folder.rglob("*.JPG"))
    data = datasets.Dataset.from_dict({"image": paths}).cast_column("image", datasets.Image())
    data.save_to_disk(str(tmp_path / "saved"))
    shards = open_shards(tmp_path / "saved", indexes=tmp_path / "index")
    assert contents(shards) == [Path(path).read_bytes() for path in paths]
