"""`curate` on images with a planted imbalance: shares, the same bytes whatever happens, and the page."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import simplejpeg
import torch

from data_pipeline.curate.config import CurateConfig, LookupConfig
from data_pipeline.curate.features import ShardImages
from data_pipeline.curate.lookup import look_up
from data_pipeline.curate.run import curate
from panendofm.records.curation import CurationFolder, read_curation
from panendofm.records.shards import FRAME_SCHEMA, Manifest, ShardFolder, write_index
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError

SHARDS = 6
SCENES = [600, 6, 6, 6, 6, 6]  # one scene is there a hundred times as often as each of five others


Frame = tuple[dict[str, Any], np.ndarray]  # its row of the manifest, its image


def noised(image: np.ndarray, rng: np.random.Generator, spread: float) -> np.ndarray:
    return np.clip(image + rng.normal(0, spread, image.shape), 0, 255).astype(np.uint8)


def scene(rng: np.random.Generator) -> np.ndarray:
    return cv2.resize(rng.integers(30, 226, (4, 4, 3), np.uint8), (40, 40), interpolation=cv2.INTER_CUBIC).astype(float)


def imbalanced() -> list[Frame]:
    """Six scenes of smooth colors, each frame moved and noised a little."""
    rng = np.random.default_rng(3)
    frames = []
    for number, count in enumerate(SCENES):
        image = scene(rng)
        for frame in range(count):
            moved = np.roll(image, tuple(rng.integers(-1, 2, 2)), (0, 1))
            frames.append(({"key": f"s{number}-{frame:04d}", "corpus": f"c{number % 2}"}, noised(moved, rng, 6)))
    return frames


def twins() -> list[Frame]:
    """A moment each of 200 videos, shown twice within half a second."""
    rng = np.random.default_rng(4)
    frames = []
    for video in range(200):
        image = scene(rng)
        for name, seconds in (("a", 3.0), ("b", 3.5)):
            row = {"key": f"{video:04d}{name}", "corpus": "c", "video": f"v{video}", "seconds": seconds}
            frames.append((row, noised(image, rng, 3)))
    return frames


def write_set(folder: Path, frames: list[Frame]) -> Path:
    """A finished set of shards."""
    folder.mkdir(parents=True)
    names, rows = [], []
    for shard in range(SHARDS):
        name, index = f"shard-{shard:06d}.tar", []
        with tarfile.open(folder / name, "w", format=tarfile.USTAR_FORMAT) as archive:
            for row, image in frames[shard::SHARDS]:
                places: list[int] = []
                for suffix, content in (("jpg", simplejpeg.encode_jpeg(image)), ("json", b"{}")):
                    member = tarfile.TarInfo(f"{row['key']}.{suffix}")
                    member.size = len(content)
                    places += [archive.offset + 512, len(content)]
                    archive.addfile(member, io.BytesIO(content))
                index.append((row["key"], *places))
                rows.append({**row, "shard": name})
        write_index(folder / name, index, (folder / name).stat().st_size)  # type: ignore[arg-type]
        names.append(name)
    files = ShardFolder(folder)
    pq.write_table(pa.Table.from_pylist(rows, FRAME_SCHEMA.append(pa.field("shard", pa.string()))), files.frames)
    files.write_manifest(Manifest(names, len(rows)))
    files.checksums.write_text("")
    return folder


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("curated") / "shards", imbalanced())


def config_for(out: Path, *words: str) -> CurateConfig:
    return load_config(CurateConfig, None, ["network=pixels", f"out={out}", "ray.workers=2", *words])


@pytest.fixture(scope="module")
def curated(shards: Path, tmp_path_factory: pytest.TempPathFactory, ray_cluster: None) -> CurationFolder:
    return curate(shards, config_for(tmp_path_factory.mktemp("curation") / "a"))


def test_weights_lift_every_rare_scene_to_within_twice_of_an_equal_share(curated: CurationFolder) -> None:
    table = read_curation(curated.table)
    of_scene = np.array([int(key[1]) for key in table.column("key").to_pylist()])
    weights = table.column("weight").to_numpy()
    assert np.bincount(of_scene).tolist() == SCENES
    shares = np.bincount(of_scene, weights=weights) / weights.sum()
    assert (shares >= 1 / 12).all(), shares
    assert (shares <= 2 / 6).all(), shares
    assert weights.mean() == pytest.approx(1)


def test_any_number_of_workers_gives_the_same_bytes(curated: CurationFolder, shards: Path, tmp_path: Path) -> None:
    other = curate(shards, config_for(tmp_path / "b", "ray.workers=1"))
    for ours, theirs in ((other.table, curated.table), (other.page, curated.page)):
        assert ours.read_bytes() == theirs.read_bytes()
    features = {path.name: path.read_bytes() for path in curated.features.glob("*.npy")}
    assert features == {path.name: path.read_bytes() for path in other.features.glob("*.npy")}
    assert len(features) == SHARDS


def test_what_is_there_is_not_computed_again(
    curated: CurationFolder, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in curated.features.glob("*.npy")}
    table = curated.table.read_bytes()
    curate(shards, config_for(curated.path))
    assert f"features of {SHARDS} of {SHARDS} shards are there" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in curated.features.glob("*.npy")}
    assert table == curated.table.read_bytes()


def test_the_page_shows_clusters_and_shares(curated: CurationFolder) -> None:
    page = curated.page.read_text()
    assert page.count("<img") >= 6
    assert "By corpus" in page
    assert "By organ" in page
    assert "600 frames, before 95.24%" in page


@pytest.mark.slow
def test_five_kills_change_nothing(curated: CurationFolder, shards: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    words = [
        sys.executable,
        "-m",
        "data_pipeline",
        "curate",
        str(shards),
        "network=pixels",
        f"out={out}",
        "ray.workers=2",
    ]
    landed = 0
    for number in range(5):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if len(list((out / "features").glob("*.npy"))) > number:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        landed += process.wait() == -signal.SIGKILL
    assert landed >= 3
    subprocess.run(words, check=True)
    assert CurationFolder(out).table.read_bytes() == curated.table.read_bytes()


def test_look_up_finds_the_scene_of_an_example(curated: CurationFolder, shards: Path, tmp_path: Path) -> None:
    images = [ShardImages(shard) for shard in sorted(shards.glob("shard-*.tar"))]
    shard, place = next((some, some.keys.index(key)) for some in images for key in some.keys if key.startswith("s3"))
    shard[place].save(tmp_path / "example.png")
    out = tmp_path / "similar.csv"
    keys = look_up(shards, [tmp_path / "example.png"], LookupConfig(str(out), 6, str(curated.path)))
    assert keys[0] == shard.keys[place]
    assert {key[:2] for key in keys} == {"s3"}
    assert out.read_text().splitlines()[0] == "key,similarity"
    assert out.with_suffix(".html").read_text().count("<img") == 7
    with pytest.raises(UserError, match="holds no curation"):
        look_up(shards, [tmp_path / "example.png"], LookupConfig(str(out), 6))


def test_near_duplicates_of_one_moment_get_no_weight(tmp_path: Path, ray_cluster: None) -> None:
    shards = write_set(tmp_path / "shards", twins())
    table = read_curation(curate(shards, config_for(tmp_path / "out")).table)
    weights = dict(zip(table.column("key").to_pylist(), table.column("weight").to_pylist(), strict=True))
    removed = {key for key, weight in weights.items() if weight == 0}
    assert len(removed) > 0.9 * len(weights) / 2
    for key in removed:  # of the two of a moment one stays
        assert weights[f"{key[:-1]}{'a' if key[-1] == 'b' else 'b'}"] > 0
    kept = read_curation(curate(shards, config_for(tmp_path / "all", "near_duplicates.remove=false")).table)
    assert min(kept.column("weight").to_pylist()) > 0


def test_a_set_that_is_not_finished_is_refused(shards: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no finished set"):
        curate(tmp_path, config_for(tmp_path / "out"))


def test_gpus_that_are_not_there_are_named(shards: Path, tmp_path: Path, ray_cluster: None) -> None:
    with pytest.raises(UserError, match=r"gpus_per_task=0.5: this Ray cluster has 0 GPUs; set gpus_per_task=0"):
        curate(shards, config_for(tmp_path / "out", "gpus_per_task=0.5"))


PROMISED = """
import sys
import ray
from data_pipeline.__main__ import STAGE
from panendofm.runtime.command_line import run_stage

ray.init(num_cpus=1, num_gpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
run_stage(STAGE, sys.argv[1:])
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU that Ray promises is there")
def test_a_gpu_that_ray_promises_and_torch_does_not_see_is_named(shards: Path, tmp_path: Path) -> None:
    words = ["curate", str(shards), f"out={tmp_path / 'out'}", "network=pixels", "gpus_per_task=1"]
    done = subprocess.run([sys.executable, "-c", PROMISED, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "Ray gave a GPU that torch does not see" in done.stderr
