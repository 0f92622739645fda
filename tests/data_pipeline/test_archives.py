"""Corpora as zips and tars give the shards of the folders that they were made of; what is wrong with one is said."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from data_pipeline import PipelineConfig
from data_pipeline.archives import unpacked
from data_pipeline.planning import plan
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of two patients, and what is no image."""
    random = np.random.default_rng(0)
    root = tmp_path / "hospital"
    for name in ("patient_1/a.jpg", "patient_1/b.jpg", "patient_2/c.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(simplejpeg.encode_jpeg(random.integers(0, 255, (64, 64, 3), np.uint8)))
    (root / "patient_2" / "report.txt").write_text("not for anybody")
    return root


def packed(folder: Path, target: Path) -> Path:
    """With the folder itself in the archive, as most archives have it, and a Mac's leftovers."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w") as archive:
            for file in files:
                archive.write(file, file.relative_to(folder.parent))
            archive.writestr("__MACOSX/hospital/._a.jpg", b"rubbish")
    else:
        with tarfile.open(target, "w:gz" if target.suffix == ".gz" else "w") as tar:
            tar.add(folder, folder.name)
    return target


def planned(root: Path, out: Path) -> list[tuple[str, bytes]]:
    """Path and content of every source."""
    words = [f"out={out}", "corpora.mine.adapter=folder", f"corpora.mine.root={root}", "corpora.mine.license=mine"]
    made = plan(load_config(PipelineConfig, None, words))
    return [
        (source.path, (Path(unit.root) / source.path).read_bytes()) for unit in made.units for source in unit.sources
    ]


@pytest.mark.parametrize("name", ["corpus.zip", "corpus.tar", "corpus.tar.gz"])
def test_an_archive_is_planned_as_its_folder(folder: Path, tmp_path: Path, name: str) -> None:
    archive = packed(folder, tmp_path / name)
    assert planned(archive, tmp_path / "out") == planned(folder, tmp_path / "other")
    private = tmp_path / "out-private" / "unpacked"
    assert not list(private.rglob("report.txt")), "only media are unpacked"
    assert not (tmp_path / "out").exists(), "names stay out of what is published"


def test_it_is_unpacked_once_and_anew_when_it_changed(folder: Path, tmp_path: Path) -> None:
    archive = packed(folder, tmp_path / "corpus.zip")
    first = unpacked(archive, tmp_path / "unpacked")
    (first / "patient_1" / "a.jpg").write_bytes(b"changed by hand")
    assert unpacked(archive, tmp_path / "unpacked") == first
    assert (first / "patient_1" / "a.jpg").read_bytes() == b"changed by hand"
    (folder / "patient_3").mkdir()
    (folder / "patient_3" / "d.jpg").write_bytes((folder / "patient_1" / "b.jpg").read_bytes())
    assert unpacked(packed(folder, archive), tmp_path / "unpacked") != first


def test_a_damaged_archive_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    archive = packed(folder, tmp_path / "corpus.zip")
    content = bytearray(archive.read_bytes())
    content[len(content) // 3] ^= 255
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"corpus\.zip can't be unpacked .*; get it again"):
        unpacked(archive, tmp_path / "unpacked")
    assert list((tmp_path / "unpacked").iterdir()) == []


@pytest.mark.parametrize("name", ["../../outside.jpg", "/outside.jpg"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    inside = tmp_path / "a" / "b"
    try:
        unpacked(tmp_path / "evil.tar", inside)
    except UserError as error:
        assert "can't be unpacked" in str(error)
    strangers = [path for path in tmp_path.rglob("outside.jpg") if not path.is_relative_to(inside)]
    assert strangers == [] and not Path("/outside.jpg").exists()


def test_more_than_the_disk_holds_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = packed(folder, tmp_path / "corpus.zip")
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(UserError, match="make room"):
        unpacked(archive, tmp_path / "unpacked")


def test_a_locked_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    archive = packed(folder, tmp_path / "corpus.zip")
    content = bytearray(archive.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        content[at + offset] |= 1
    archive.write_bytes(content)
    with pytest.raises(UserError, match="locked by a password"):
        unpacked(archive, tmp_path / "unpacked")
