"""One table: rare but legal image files, and damaged ones, are read alike by every stage that reads images."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from image_zoo import scene, write_zoo
from numpy.typing import NDArray
from PIL import Image

from data_pipeline import PipelineConfig, plan
from data_pipeline.screening.reading import SourceReader
from eval_knn import EvalConfig, Evaluator
from panendofm.atlas import measure_all, read_labeled_images
from panendofm.atlas.samples import Sample
from panendofm.backbone import FeatureCache, extract_features
from panendofm.backbone.embed import ImageList, embed
from panendofm.backbone.networks import LAST, POOLINGS, find_network, reading_of
from panendofm.imaging.images import UnreadableImageError, decode_image
from panendofm.linear_probe.dense.data.images import DenseImage
from panendofm.linear_probe.dense.maps import MapMaker, feature_maps
from panendofm.linear_probe.features import features_of
from panendofm.runtime.config import load_config

PIXELS = find_network("pixels")
SIDE = 32
READING = reading_of(PIXELS, LAST, POOLINGS[0])
# What a stage made of a file: its pixels, or a feature that stands for them; None where it refused the file.
Seen = dict[str, NDArray[np.generic] | None]


def damaged() -> dict[str, bytes]:
    """Files that no stage may take for an image."""

    def saved(kind: str, image: Image.Image) -> bytes:
        stream = io.BytesIO()
        image.save(stream, kind)
        return stream.getvalue()

    whole = Image.fromarray(np.tile(scene(), (4, 4, 1)))
    real_valued = Image.fromarray(np.random.default_rng(0).random((20, 20)).astype(np.float32), mode="F")
    return {
        "bad-empty.jpg": b"",
        "bad-half.jpg": saved("JPEG", whole)[:2500],
        "bad-half.png": saved("PNG", whole)[:-300],
        "bad-text.png": b"no image at all",
        "bad-pointer.jpg": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "bad-floats.tif": saved("TIFF", real_valued),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes, so that the labeled stages take it: the zoo, and one more image."""
    root = tmp_path_factory.mktemp("zoo")
    write_zoo(root / "data/zoo")
    for name, content in damaged().items():
        (root / "data/zoo" / name).write_bytes(content)
    (root / "data/other").mkdir()
    Image.fromarray(scene(7)).save(root / "data/other/other.png")
    return root


def files_of(folder: Path) -> list[Path]:
    return sorted((folder / "data/zoo").iterdir(), key=lambda path: os.fsencode(path.name))


def by_data_pipeline(folder: Path) -> Seen:
    """Frames as they come to the screens."""
    words = [f"data_root={folder}", "corpora={zoo: {adapter: folder, root: data/zoo, license: CC0}}"]
    config = load_config(PipelineConfig, None, words)
    seen: Seen = {}
    for unit in plan(config).units:
        for source in unit.sources:
            reader = SourceReader(source, Path(unit.root), config.decode)
            frames = list(reader.frames())
            seen[Path(source.path).name] = frames[0].rgb if frames else None
    return seen


def by_eval_knn(folder: Path) -> Seen:
    images = read_labeled_images(folder / "data", folder / "cache")
    inside = {r.name.removeprefix("zoo/"): i for i, r in enumerate(images.records) if r.label == "zoo"}
    seen: Seen = {name: np.asarray(images[i]) for name, i in inside.items()}
    return seen | {record.name.removeprefix("zoo/"): None for record in images.skipped}


def by_embed(folder: Path) -> Seen:
    images = ImageList([folder / "data/zoo"])
    seen: Seen = {}
    for number, key in enumerate(images.keys):
        try:
            seen[key] = np.asarray(images[number])
        except UnreadableImageError:
            seen[key] = None
    return seen


def by_linear_probe(folder: Path) -> Seen:
    """What is measured of the files, and the features of those that can be read."""
    files = files_of(folder)
    good = [
        file
        for file, found in zip(files, measure_all(files), strict=True)
        if not isinstance(found, UnreadableImageError)
    ]
    samples = [Sample(str(i), str(file), ("zoo",), (), ("zoo",), ()) for i, file in enumerate(good)]
    rows = features_of(PIXELS, samples, False, FeatureCache(folder / "features"), 16, "cpu", READING).features
    return {file.name: None for file in files} | dict(zip((f.name for f in good), rows.numpy(), strict=True))


def by_dense(folder: Path) -> Seen:
    """Feature maps, which hold the colors of every field."""

    def maps_of(files: list[Path]) -> NDArray[np.generic]:
        images = [DenseImage(str(file), ascii(file.name), b"", "zoo", 0, 0, None, ()) for file in files]
        return np.array(feature_maps([PIXELS], images, folder / "maps", SIDE, 16, torch.device("cpu"))["pixels"].values)

    seen: Seen = {}
    for file in files_of(folder):
        if file.name.startswith("bad-"):
            with contextlib.suppress(UnreadableImageError):
                seen[file.name] = maps_of([file])
            seen.setdefault(file.name, None)
    good = [file for file in files_of(folder) if file.name not in seen]
    return seen | dict(zip((file.name for file in good), maps_of(good), strict=True))


def pixels_themselves(pixels: NDArray[np.uint8]) -> NDArray[np.generic]:
    return pixels


def as_feature(pixels: NDArray[np.uint8]) -> NDArray[np.generic]:
    return extract_features(PIXELS.load(), [Image.fromarray(pixels)], PIXELS.preprocessing)[0].numpy()


def as_map(pixels: NDArray[np.uint8]) -> NDArray[np.generic]:
    maker = MapMaker(PIXELS, SIDE, torch.device("cpu"))
    return maker(maker.layout.preprocessing(Image.fromarray(pixels))[None])[0].numpy().astype(np.float16)


# Stage → how it reads the folder, and what it should see in an image of these pixels.
STAGES: dict[str, tuple[Callable[[Path], Seen], Callable[[NDArray[np.uint8]], NDArray[np.generic]]]] = {
    "data_pipeline": (by_data_pipeline, pixels_themselves),
    "eval_knn": (by_eval_knn, pixels_themselves),
    "embed": (by_embed, pixels_themselves),
    "linear_probe": (by_linear_probe, as_feature),
    "dense": (by_dense, as_map),
}


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_sees_the_same_pixels_and_refuses_the_same_files(stage: str, folder: Path) -> None:
    read, wanted = STAGES[stage]
    seen = read(folder)
    files = {file.name: file.read_bytes() for file in files_of(folder)}
    assert set(seen) == set(files), "every file is either read or refused"
    assert {name for name, found in seen.items() if found is None} == set(damaged())
    assert len(files) - len(damaged()) >= 40
    for name, found in seen.items():
        if found is not None:
            expected = wanted(decode_image(files[name], "x"))
            assert found.shape == expected.shape, name
            np.testing.assert_allclose(found.astype(float), expected.astype(float), atol=1e-6, err_msg=ascii(name))


def test_the_command_names_a_damaged_file_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    """`backbone embed` reads all images before it refuses, and says how many are damaged."""
    images = ImageList([folder / "data/zoo"])
    with pytest.raises(UnreadableImageError, match=r"bad-.*5 more images"):
        embed(PIXELS, images, tmp_path / "f.parquet", READING, 16, torch.device("cpu"))
    assert not (tmp_path / "f.parquet").exists()


def test_names_that_are_no_text_get_through_the_commands(tmp_path: Path) -> None:
    """A name in another encoding is a key of the features and a line of the split like any other."""
    write_zoo(tmp_path / "data/zoo")
    (tmp_path / "data/other").mkdir()
    for number in range(3):
        Image.fromarray(scene(20 + number)).save(tmp_path / f"data/other/{number}.png")
    images = ImageList([tmp_path / "data"])
    rows, _ = embed(PIXELS, images, tmp_path / "f.parquet", READING, 16, torch.device("cpu"))
    keys = pq.read_table(tmp_path / "f.parquet")["key"].to_pylist()
    assert rows == len(keys) == len(set(keys)) == len(images)
    config = EvalConfig(cache=str(tmp_path / "cache"), ks=[3])
    config.data.path, config.split.leave_one_group_out, config.bootstrap.replicates = str(tmp_path / "data"), True, 10
    config.selection.metric = "top1_k3"
    again = [Evaluator(config).split.groups.tolist() for _ in range(2)]
    assert again[0] == again[1] and len(again[0]) == len(images), "the stored split is read back"
