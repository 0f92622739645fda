"""Images of others: imported as they are, compared with evaluation sets afterwards, certified when none is a copy."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from data_pipeline.config import RayConfig
from data_pipeline.foreign.check import check, read_keys
from data_pipeline.foreign.config import CheckConfig
from panendofm.imaging.leakage import LeakageConfig
from panendofm.importing import import_shards
from panendofm.records.shards import ShardFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import failed_checksums

LEAKED = 3


@pytest.fixture(scope="module")
def images(synthetic_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(a folder of images to train on, three of them mirrored copies of evaluation images; the evaluation set)"""
    files = sorted((synthetic_corpus / "kvasir-dataset-v2").rglob("*.jpg"))[::7][:18]
    own, guarded = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("guarded")
    for number, path in enumerate(files):
        (own if number >= 8 else guarded).joinpath(f"{number:02d}.jpg").write_bytes(path.read_bytes())
    for number in range(LEAKED):
        mirrored = np.ascontiguousarray(cv2.imread(str(guarded / f"{number:02d}.jpg"))[:, ::-1])
        cv2.imwrite(str(own / f"copy{number}.jpg"), mirrored)
    return own, guarded


def config_for(guarded: Path, out: Path) -> CheckConfig:
    return CheckConfig(LeakageConfig(guard=[str(guarded)]), str(out), RayConfig())


def test_copies_are_found_left_out_and_then_the_set_is_certified(
    images: tuple[Path, Path], tmp_path: Path, ray_cluster: None
) -> None:
    own, guarded = images
    import_shards(own, tmp_path / "first")
    first = ShardFolder(tmp_path / "first")
    assert not failed_checksums(first.path)
    leaks = check(first.path, config_for(guarded, tmp_path / "leaks.csv"))
    assert len(leaks) == LEAKED and {leak.image.rpartition("/")[2] for leak in leaks} == {"00.jpg", "01.jpg", "02.jpg"}
    assert first.read_manifest().leakage is None, "a set with copies gets no certificate"

    import_shards(own, tmp_path / "second", read_keys(tmp_path / "leaks.csv"))
    second = ShardFolder(tmp_path / "second")
    assert second.read_manifest().frames == first.read_manifest().frames - LEAKED
    assert check(second.path, config_for(guarded, tmp_path / "none.csv")) == []
    certificate = second.read_manifest().leakage
    assert certificate is not None and certificate.frames_checked == second.read_manifest().frames
    assert [(one.name, one.images) for one in certificate.guarded_sets] == [(guarded.name, 8)]
    assert not failed_checksums(second.path), "the manifest has changed, and with it its checksum"


def test_mistakes_are_one_sentence(images: tuple[Path, Path], tmp_path: Path) -> None:
    own, guarded = images
    with pytest.raises(UserError, match="no shard set"):
        check(own, config_for(guarded, tmp_path / "leaks.csv"))
    import_shards(own, tmp_path / "set")
    with pytest.raises(UserError, match=r"leakage\.guard is empty"):
        check(tmp_path / "set", CheckConfig())
    with pytest.raises(UserError, match="exists already"):
        import_shards(own, tmp_path / "set")
