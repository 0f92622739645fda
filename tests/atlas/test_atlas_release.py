"""An atlas that was exported is rebuilt from a copy of the datasets elsewhere, and holds no path of this machine."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from panendofm.atlas.__main__ import STAGE
from panendofm.atlas.build import load_atlas
from panendofm.runtime.command_line import run_stage
from panendofm.runtime.parquet_files import read_parquet

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            run_stage(STAGE, words)
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out + printed.err

    return command


def draw_image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)
    Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC).save(path, quality=95)


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """Two folders of Kvasir that share names but not images, Nerthus with videos, and a copy across datasets."""
    root = tmp_path / "secret-place" / "data"
    for folder in range(2):
        for number, name in enumerate(["dyed-lifted-polyps", "normal-z-line", "polyps"]):
            for image in range(3):
                draw_image(root / f"kvasir{folder}" / name / f"{image}.jpg", 100 * folder + 10 * number + image)
    for video in range(3):
        for frame in range(2):
            name = f"bowel_{video}_score_{video}-1_{frame:08d}.jpg"
            draw_image(root / "nerthus" / str(video) / name, 1000 + 10 * video + frame)
    shutil.copy(root / "kvasir0" / "polyps" / "0.jpg", root / "kvasir1" / "polyps" / "copy.jpg")
    return root


def test_export_and_import_give_an_equal_table_elsewhere(run: Run, datasets: Path, tmp_path: Path) -> None:
    code, printed = run(str(datasets), "out=atlas.parquet")
    assert code == 0, printed
    code, printed = run("export", "atlas.parquet", "out=release", "name=Ours")
    assert code == 0, printed
    elsewhere = tmp_path / "another" / "machine"
    shutil.copytree(datasets, elsewhere)
    shutil.rmtree(datasets)
    code, printed = run("import", "release", str(elsewhere), "out=again.parquet")
    assert code == 0, printed
    assert "images that are missing: 0" in printed and "25 of 25 images" in printed

    def table(path: str) -> list[object]:
        rows = [replace(row, path="") for row in load_atlas(path).rows]
        return sorted(rows, key=lambda row: (row.dataset, row.file, row.sha256))

    assert table("again.parquet") == table("atlas.parquet")
    paths = [Path(row.path) for row in load_atlas("again.parquet").rows]
    assert all(path.is_file() and elsewhere in path.parents for path in paths)
    splits = [read_parquet(f"{name}.split.parquet", "").to_pydict() for name in ("atlas", "again")]
    assert splits[0] == splits[1]


def test_a_release_holds_no_path_and_says_what_it_is(run: Run, datasets: Path, tmp_path: Path) -> None:
    run(str(datasets), "out=atlas.parquet")
    run("export", "atlas.parquet", "out=release", "name=Ours")
    files = sorted(path for path in Path("release").iterdir())
    assert [path.name for path in files] == [
        "DATASHEET.md", "croissant.json", "images.csv", "split.json", "split.parquet",
    ]  # fmt: skip
    for path in files:
        content = path.read_bytes().decode("utf-8", errors="replace")
        assert str(tmp_path) not in content and "secret-place" not in content, path
    with Path("release/images.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 25
    for row in rows:
        assert not any(re.match(r"(/|[A-Za-z]:\\|\.\.)", cell) for cell in row.values()), row
        assert row["split"] in ("train", "validation", "test") and row["license"]
    metadata = json.loads(Path("release/croissant.json").read_text())
    assert metadata["conformsTo"] == ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"]
    assert {field["name"] for field in metadata["recordSet"][0]["field"]} == set(rows[0])
    assert sum(key.startswith("rai:") for key in metadata) >= 6 and metadata["version"] == "1.0.0"
    sheet = Path("release/DATASHEET.md").read_text()
    assert sheet.startswith("# Ours: datasheet") and "| nerthus | 6 |" in sheet


def test_missing_and_changed_images_are_named(run: Run, datasets: Path) -> None:
    run(str(datasets), "out=atlas.parquet")
    run("export", "atlas.parquet", "out=release")
    (datasets / "kvasir0" / "polyps" / "1.jpg").unlink()
    (datasets / "kvasir1" / "polyps" / "1.jpg").unlink()
    draw_image(datasets / "nerthus" / "1" / "bowel_1_score_1-1_00000000.jpg", 9999)
    draw_image(datasets / "kvasir0" / "polyps" / "new.jpg", 8888)
    code, printed = run("import", "release", str(datasets), "out=again.parquet")
    assert code == 0, printed
    assert "2 images are missing: kvasir/polyps/1.jpg, kvasir/polyps/1.jpg" in printed
    assert "1 images are different from the release: nerthus/1/bowel_1_score_1-1_00000000.jpg" in printed
    assert "kvasir: 1 images on disk are not in the release" in printed
    assert len(load_atlas("again.parquet").rows) == 22
    code, printed = run("import", "release", str(datasets / "kvasir0"), "out=again.parquet")
    assert code == 0 and "are missing" in printed


def test_a_damaged_release_is_one_sentence(run: Run, datasets: Path) -> None:
    run(str(datasets), "out=atlas.parquet")
    run("export", "atlas.parquet", "out=release")
    text = Path("release/images.csv").read_text()
    Path("release/images.csv").write_text(text.replace(",96,96,", ",96,x,", 1))
    code, printed = run("import", "release", str(datasets))
    assert code == 2 and "images.csv, line " in printed
    Path("release/images.csv").unlink()
    code, printed = run("import", "release", str(datasets))
    assert code == 2 and "images.csv" in printed
