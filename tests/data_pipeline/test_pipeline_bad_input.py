"""What goes wrong ends in one sentence and exit code 2, and loses nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from pipeline_runs import config_for

from data_pipeline import CorpusConfig, PipelineConfig, report, shard, verify
from data_pipeline.__main__ import STAGE
from data_pipeline.identity import load_or_create_key
from data_pipeline.screening.reading import SourceReader
from data_pipeline.sources import FoundFile, Source
from panendofm.runtime.command_line import run_stage
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError


def image(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    small = random.uniform(60, 200, (12, 16, 3)).astype(np.float32)
    large = cv2.resize(small, (320, 240), interpolation=cv2.INTER_CUBIC) + random.normal(0, 12, (240, 320, 3))
    return np.clip(large, 0, 255).astype(np.uint8)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder of six good images."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(6):
        cv2.imwrite(str(folder / f"{number}.png"), image(number))
    return folder


def config_of(images: Path, out: Path) -> PipelineConfig:
    config = PipelineConfig(out=str(out), data_root=str(images.parent), corpora={})
    config.corpora = {"mine": CorpusConfig("folder", images.name, license="CC0")}
    config.screen.text.inside, config.screen.text.reader = "keep", "none"
    config.ray.workers = 1
    return config


def exit_of(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run_stage(STAGE, list(words))
    return int(ended.value.code or 0)


@pytest.mark.parametrize("verb", ["plan", "shard"])
def test_missing_root_is_one_sentence_and_exit_2(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_of(verb, "configs/corpora/panendo.yaml", f"data_root={tmp_path}", f"out={tmp_path / 'out'}")
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1
    assert error.startswith(f"error: corpora.colonoscopicds.root: the folder {tmp_path}/colonoscopicds does not exist")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", ["verify", "report"])
def test_there_is_nothing_to_verify_or_report(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of(verb, f"out={tmp_path}") == 2
    assert "run shard first" in capsys.readouterr().err


def test_broken_images_are_reported_and_the_rest_is_kept(images: Path, tmp_path: Path, ray_cluster: None) -> None:
    (images / "empty.png").touch()
    (images / "text.jpg").write_text("not an image")
    whole = cv2.imencode(".jpg", image(50))[1].tobytes()
    (images / "half.jpg").write_bytes(whole[: len(whole) // 2])
    whole = cv2.imencode(".png", image(52))[1].tobytes()
    (images / "half.png").write_bytes(whole[: len(whole) // 2])
    (images / "wrong.jpg").write_bytes(cv2.imencode(".png", image(51))[1].tobytes())
    (images / "gone.png").symlink_to(tmp_path / "nowhere.png")
    config = config_of(images, tmp_path / "out")
    assert shard(config).frames == 7
    import pyarrow.parquet as pq

    rows = pq.read_table(config.private_dir / "sources.parquet").to_pylist()
    problems = {path: why for row in rows for path, why in row["problems"]}
    assert problems == {
        "empty.png": "cannot be read: the file is empty",
        "half.jpg": "cannot be read: Premature end of JPEG file",
        "half.png": "cannot be read: image file is truncated",
        "text.jpg": "cannot be read: it is not an image",
        "wrong.jpg": "is a PNG image, not what its name says",
    }
    assert verify(config).faults == []


def test_names_that_look_like_paths_or_commands_do_no_harm(images: Path, tmp_path: Path, ray_cluster: None) -> None:
    for number, name in enumerate(("..png.png", "a\nb.png", "..\\..\\evil.png", "$(touch x).png", "näme 1.png")):
        cv2.imwrite(str(images / "plain.png"), image(100 + number))
        (images / "plain.png").rename(images / name)
    (images / "sub").mkdir()
    cv2.imwrite(str(images / "sub" / "0.png"), image(200))  # a second file of that name
    before = {path for path in tmp_path.rglob("*") if path.is_relative_to(images)}
    config = config_of(images, tmp_path / "out")
    result = shard(config)
    assert result.frames == 6 + 3 + 1, "names that begin with a dot are hidden and left out; all others are kept"
    listing = subprocess.run(
        ["tar", "-tf", result.out / "shard-000000.tar"], capture_output=True, text=True, check=True
    )
    names = listing.stdout.split()
    assert len(names) == len(set(names)) == 20
    assert all(set(name.partition(".")[0]) <= set("0123456789abcdef") for name in names)
    assert {path for path in tmp_path.rglob("*") if path.is_relative_to(images)} == before


def test_progress_tells_frames_per_second_and_time_left(
    images: Path,
    tmp_path: Path,
    ray_cluster: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("panendofm.runtime.console.PROGRESS_EVERY_SECONDS", 0.0)
    config = config_of(images, tmp_path / "out")
    config.ray.images_per_unit = 1
    shard(config)
    lines = [line for line in capsys.readouterr().out.splitlines() if "screening:" in line]
    assert re.search(r"screening: 1/\d units \(\d+%\), \d+\.\d frames/s$", lines[0]), "too early to say how long"
    assert re.search(r"screening: 4/\d units \(\d+%\), \d+\.\d frames/s(, .* left)?$", lines[3]), lines


def test_nothing_kept_says_why(tmp_path: Path, ray_cluster: None) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    cv2.imwrite(str(folder / "dark.png"), np.full((240, 320, 3), 22, np.uint8))
    with pytest.raises(UserError, match=r"no frame of .* passed the screens; the most frequent reason is "):
        shard(config_of(folder, tmp_path / "out"))


def test_guard_folder_that_guards_nothing_is_refused(images: Path, tmp_path: Path, ray_cluster: None) -> None:
    config = config_of(images, tmp_path / "out")
    config.leakage.guard = [str(tmp_path / "nowhere")]
    with pytest.raises(UserError, match=r"leakage\.guard: the folder .*nowhere does not exist"):
        shard(config)
    (tmp_path / "empty").mkdir()
    config.leakage.guard = [str(tmp_path / "empty")]
    with pytest.raises(UserError, match=r"leakage\.guard: .*empty holds no images"):
        shard(config)


def test_guarded_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    from data_pipeline.screening.evaluation_sets import set_names

    config = PipelineConfig()
    config.leakage.guard = [f"{tmp_path}/a/images", f"{tmp_path}/b/images", f"{tmp_path}/kvasir"]
    assert set_names(config) == ["a/images", "b/images", "kvasir"]


def test_a_source_that_vanished_after_planning_is_reported(images: Path, tmp_path: Path) -> None:
    from data_pipeline import plan
    from data_pipeline.screening.screen_sources import process_unit
    from panendofm.imaging.leakage import build_guard

    (images / "film.mp4").write_bytes(b"x")
    config = config_of(images, tmp_path / "out")
    (unit,) = (unit for unit in plan(config).units if unit.sources[0].kind == "video")
    (images / "film.mp4").unlink()
    assert process_unit(unit, config, build_guard([]), bytes(32), tmp_path / "part") == 0
    assert "No such file" in (tmp_path / "part" / "sources.json").read_text()


def test_a_part_that_another_worker_finished_meanwhile_is_taken(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from data_pipeline import plan
    from data_pipeline.screening import screen_sources as work
    from panendofm.imaging.leakage import build_guard

    config = config_of(images, tmp_path / "out")
    (unit,) = plan(config).units
    write_document = work.write_document

    def finish_elsewhere_first(path: Path, content: object) -> None:
        monkeypatch.setattr(work, "write_document", write_document)
        work.process_unit(unit, config, build_guard([]), bytes(32), tmp_path / "part")
        write_document(path, content)

    monkeypatch.setattr(work, "write_document", finish_elsewhere_first)
    assert work.process_unit(unit, config, build_guard([]), bytes(32), tmp_path / "part") == 6
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == ["part"], "nothing is left behind"


def test_two_runs_into_one_folder_are_refused(images: Path, tmp_path: Path) -> None:
    from panendofm.runtime.locks import directory_lock

    config = config_of(images, tmp_path / "out")
    with directory_lock(config.private_dir), pytest.raises(UserError, match="is in use by process"):
        shard(config)


def test_damaged_key_is_named_and_a_key_is_private(tmp_path: Path) -> None:
    key = load_or_create_key(tmp_path)
    assert load_or_create_key(tmp_path) == key and len(key) == 32
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "key").write_text("123")
    with pytest.raises(UserError, match="is damaged"):
        load_or_create_key(tmp_path)


def test_key_inside_the_shards_is_refused(tmp_path: Path) -> None:
    config = PipelineConfig(out=str(tmp_path / "out"))
    config.identity.private_dir = str(tmp_path / "out" / "secret")
    with pytest.raises(UserError, match="the key must stay outside the shards"):
        config.check()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 300 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs more rights")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_is_one_sentence_and_the_run_continues_afterwards(
    small_disk: Path, images: Path, tmp_path: Path, ray_cluster: None
) -> None:
    for number in range(10, 60):
        cv2.imwrite(str(images / f"{number}.png"), image(number))
    config = config_of(images, small_disk / "out")
    config.identity.private_dir = str(tmp_path / "private")
    with pytest.raises(UserError, match="the disk is full; free some space and run the same command again"):
        shard(config)
    assert not (small_disk / "out" / "SHA256SUMS").exists()
    subprocess.run(["mount", "-o", "remount,size=60m", str(small_disk)], check=True)
    assert shard(config).frames == 56
    assert verify(config).faults == []
    assert report(config).is_file()


def test_a_corpus_named_twice_under_one_root_is_kept_once(
    synthetic_corpus: Path, tmp_path: Path, ray_cluster: None
) -> None:
    config = config_for(synthetic_corpus, tmp_path / "shards", only=("ri-vce",))
    config.corpora["again"] = CorpusConfig(adapter="ri-vce", root="ri-vce")
    config.leakage.guard = []
    alone = config_for(synthetic_corpus, tmp_path / "alone", only=("ri-vce",))
    alone.leakage.guard = []
    assert shard(config).frames == shard(alone).frames > 0


def test_how_large_a_image_may_be_is_a_setting(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((50, 60, 3), np.uint8))
    source = Source("a.png", "image", "mine", "x", files=(FoundFile("a.png", 1, 1),))
    for megapixels, frames in ((0.003, 1), (0.0029, 0)):
        reader = SourceReader(source, tmp_path, PipelineConfig(out="o").decode, round(megapixels * 1e6))
        assert len(list(reader.frames())) == frames
    assert "60 × 50 pixels, more than 0.0029 million" in reader.problems["a.png"]
    with pytest.raises(UserError, match=r"'screen\.max_megapixels' is 0"):
        load_config(PipelineConfig, None, ["out=o", "screen.max_megapixels=0"])
