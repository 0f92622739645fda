"""Exports on a full disk, to one folder at once, twice the same, and with a line of the checksums missing."""

from __future__ import annotations

import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from backbone_cases import random_model

from panendofm.backbone import vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.release import export_release, verify_release
from panendofm.runtime.errors import UserError


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "w.pt"
    torch.save(random_model(vit_config("vit_test", image_px=224)).state_dict(), path)
    return path


def export(weights: Path, out: Path) -> Path:
    export_release(weights, ExportConfig(str(out), formats=["hub"], name="r"))
    return out


def test_equal_weights_give_equal_files(weights: Path, tmp_path: Path) -> None:
    folders = [export(weights, tmp_path / str(number)) for number in range(4)]
    sums = {(folder / "SHA256SUMS").read_bytes() for folder in folders}
    assert len(sums) == 1
    assert (folders[0] / "hub" / "model.safetensors").stat().st_mode & 0o444 == 0o444


def test_a_full_disk_is_one_sentence_and_leaves_nothing(weights: Path, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(UserError, match="cannot write"):
            export(weights, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_two_exports_to_one_folder(weights: Path, tmp_path: Path) -> None:
    """One of them is there whole; the other one ends with a sentence, whenever it comes."""
    out = tmp_path / "out"
    start = threading.Barrier(2)

    def attempt() -> str:
        start.wait()
        try:
            export(weights, out)
        except UserError as error:
            return str(error)
        return "written"

    with ThreadPoolExecutor(2) as pool:
        said = [future.result() for future in [pool.submit(attempt) for _ in range(2)]]
    assert "written" in said and (refused := [text for text in said if text != "written"])
    assert refused[0].startswith(f"cannot write {out}: ") and "\n" not in refused[0]
    verify_release(out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["README.md", "hub/model.safetensors", "release.json"])
def test_every_file_must_be_listed(weights: Path, tmp_path: Path, name: str) -> None:
    out = export(weights, tmp_path / "out")
    verify_release(out)
    sums = out / "SHA256SUMS"
    lines = sums.read_text(encoding="utf-8").splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if not line.endswith(f"  {name}\n")), encoding="utf-8")
    with pytest.raises(UserError, match=f"{name} is not listed in SHA256SUMS"):
        verify_release(out)


def test_the_card_speaks_of_images_that_are_not_square(weights: Path, tmp_path: Path) -> None:
    out = export(weights, tmp_path / "out")
    assert "images that are not square" in (out / "README.md").read_text(encoding="utf-8")
