"""Nothing that is published names a person, a folder of this machine or a host; names of any kind do no harm."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import sys
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
from pipeline_runs import in_published

from data_pipeline import CorpusConfig, PipelineConfig, shard, verify
from data_pipeline.screening.evaluation_sets import check_guarded_sets
from panendofm.records.shards import PrivateFolder, ShardFolder
from panendofm.runtime.errors import UserError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from image_zoo import write_zoo

PLANTED = ("MUELLER_HANS", "19500101", "DR_SCHMIDT", "secret-project")


def image(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    small = random.uniform(60, 200, (12, 16, 3)).astype(np.float32)
    large = cv2.resize(small, (320, 240), interpolation=cv2.INTER_CUBIC) + random.normal(0, 12, (240, 320, 3))
    return np.clip(large, 0, 255).astype(np.uint8)


def config_of(root: Path, out: Path, corpora: dict[str, CorpusConfig]) -> PipelineConfig:
    config = PipelineConfig(out=str(out), data_root=str(root), corpora=corpora)
    config.screen.text.inside, config.screen.text.reader = "keep", "none"
    config.ray.workers = 1
    return config


@pytest.fixture
def planted(tmp_path: Path) -> PipelineConfig:
    """Names in every place: folders, files, a component, the guarded images, broken files, copies."""
    root = tmp_path / "secret-project" / "DR_SCHMIDT"
    for folder in ("mine/MUELLER_HANS_19500101", "eval-set", "endofm/MUELLER_HANS"):
        (root / folder).mkdir(parents=True)
    for number in range(4):
        cv2.imwrite(str(root / f"mine/MUELLER_HANS_19500101/MUELLER_HANS_{number}.png"), image(number))
    (root / "mine/MUELLER_HANS_broken.jpg").write_bytes(b"no image")
    shutil.copy(root / "mine/MUELLER_HANS_19500101/MUELLER_HANS_0.png", root / "mine/MUELLER_HANS_copy.png")
    cv2.imwrite(str(root / "eval-set/MUELLER_HANS_19500101.jpg"), image(2))
    video = cv2.VideoWriter(
        str(root / "endofm/MUELLER_HANS/MUELLER_HANS.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 4, (320, 240)
    )
    for number in range(10, 14):
        video.write(image(number))
    video.release()
    corpora = {"mine": CorpusConfig("folder", str(root / "mine")), "endo": CorpusConfig("endofm-pretrain", "endofm")}
    corpora["endo"].exclude_components = ["CholecTriplet"]
    config = config_of(root, tmp_path / "published" / "shards", corpora)
    config.leakage.guard = [str(root / "eval-set")]
    return config


def test_published_files_hold_no_name_path_or_host(planted: PipelineConfig, ray_cluster: None) -> None:
    assert shard(planted).frames >= 4
    host = socket.gethostname()  # two letters would be found in any compressed image
    forbidden = [*PLANTED, str(Path(planted.data_root).parent), host if len(host) > 4 else f'"{host}"']
    assert in_published(planted.out_dir, forbidden) == []
    manifest = ShardFolder(planted.out_dir).read_manifest()
    assert manifest.leakage is not None and len(manifest.leakage.images_found) == 1, "the copy was found, by its hash"
    components = set(pq.read_table(ShardFolder(planted.out_dir).frames).column("component").to_pylist())
    assert len(components) == 2 and None in components, "a folder that nobody knows has a hash"
    private = PrivateFolder(planted.private_dir)
    assert any("MUELLER_HANS" in path for path in pq.read_table(private.sources).column("path").to_pylist())
    assert verify(planted).faults == []


def test_the_search_for_names_looks_into_tars_and_tables(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Dr MUELLER")
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        tar.add(tmp_path / "a.txt", "MUELLER.json")
    assert {hit.split(":")[0] for hit in in_published(tmp_path, ["MUELLER"])} == {"a.txt", "b.tar"}


def test_the_private_folder_is_its_owners_alone(planted: PipelineConfig, ray_cluster: None) -> None:
    planted.private_dir.mkdir(parents=True)
    planted.private_dir.chmod(0o755)  # as an earlier version left it
    shard(planted)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in [planted.private_dir, *planted.private_dir.iterdir()]
    }
    assert modes.pop(planted.private_dir.name) == 0o700
    assert set(modes) >= {"key", "sources.parquet"} and set(modes.values()) == {0o600}


def test_names_of_any_kind_do_not_end_a_run(
    tmp_path: Path, ray_cluster: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    rare = write_zoo(folder)
    hostile = [b"\x1b[31mred.png", b"two\nlines.png", b"\xff\xfe.png", b"=cmd|calc.png"]
    for number, name in enumerate(hostile):
        content = cv2.imencode(".png", image(number))[1].tobytes()
        with open(os.path.join(os.fsencode(folder), name), "wb") as stream:  # noqa: PTH118, PTH123
            stream.write(content)
    with open(os.path.join(os.fsencode(folder), b"broken\n\x1b[2J\xff.png"), "wb") as stream:  # noqa: PTH118, PTH123
        stream.write(b"no")
    config = config_of(tmp_path, tmp_path / "out", {"mine": CorpusConfig("folder", "mine")})
    config.screen.field_of_view.min_area = 0.01
    config.duplicates.image_bits = 0
    shard(config)
    said = capsys.readouterr().out
    assert "\x1b" not in said and r"broken\x0a\x1b[2J\xff.png" in said
    rows = pq.read_table(PrivateFolder(config.private_dir).sources).to_pylist()
    assert len(rows) == len(rare) + len(hostile) + 1
    assert {path for row in rows for path, _ in row["problems"]} == {r"broken\x0a\x1b[2J\xff.png"}
    assert {r"two\x0alines.png", r"\xff\xfe.png", r"latin-1-\xfc.png"} <= {row["path"] for row in rows}


def test_a_guarded_set_that_can_not_be_read_guards_nothing(planted: PipelineConfig, ray_cluster: None) -> None:
    folder = Path(planted.leakage.guard[0])
    assert check_guarded_sets(planted) == [("eval-set", 1)]
    for path in folder.iterdir():
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    for refused in (check_guarded_sets, shard):
        with pytest.raises(UserError, match=r"1 of 1 images of eval-set can't be read.*git lfs pull"):
            refused(planted)
    assert not ShardFolder(planted.out_dir).checksums.exists()
    planted.leakage.max_unreadable_share = 1.0
    assert shard(planted).frames > 0
