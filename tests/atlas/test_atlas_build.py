"""The atlas: copies across datasets are found, contradictions counted, damage reported, nothing invented."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from panendofm.atlas.build import alike_conflicts, build_atlas, conflicts, contradict, load_atlas, overlaps, save_atlas
from panendofm.atlas.samples import group_numbers, samples_of
from panendofm.atlas.taxonomy import Label
from panendofm.runtime.errors import UserError


def image(path: Path, seed: int, size: int = 96) -> None:
    """A smooth random image: images of different seeds look different, and survive JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)
    Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC).save(path, quality=95)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Kvasir, Nerthus and HyperKvasir with planted copies: exact, re-encoded, and with another label."""
    kvasir, hyper = tmp_path / "kvasir", tmp_path / "hyper" / "labeled-images"
    for i, name in enumerate(["dyed-lifted-polyps", "normal-z-line", "polyps", "esophagitis"]):
        for j in range(4):
            image(kvasir / name / f"{i}{j}.jpg", 10 * i + j)
    polyps = hyper / "lower-gi-tract" / "pathological-findings" / "polyps"
    barretts = hyper / "upper-gi-tract" / "pathological-findings" / "barretts"
    image(polyps / "own.jpg", 100)
    shutil.copy(kvasir / "polyps" / "20.jpg", polyps / "copy.jpg")
    Image.open(kvasir / "polyps" / "21.jpg").resize((70, 70)).save(polyps / "small.jpg", quality=60)
    barretts.mkdir(parents=True)
    shutil.copy(kvasir / "esophagitis" / "30.jpg", barretts / "other.jpg")
    for frame in range(3):
        image(tmp_path / "nerthus" / "0" / f"bowel_1_score_0-1_{frame:08d}.jpg", 200 + frame)
    return tmp_path


def test_copies_and_contradictions_are_found(corpus: Path) -> None:
    atlas = build_atlas([str(corpus)], 20)
    assert {name: entry.images for name, entry in atlas.info.datasets.items()} == {
        "kvasir": 16,
        "hyperkvasir": 4,
        "nerthus": 3,
    }
    (pair,) = overlaps(atlas.rows)
    assert (pair.identical_files, pair.alike_groups) == (2, 3)
    assert conflicts(atlas.rows) == {("hyperkvasir barretts", "kvasir esophagitis"): 1}
    assert alike_conflicts(atlas.rows) == 0  # the contradicting files are equal, the alike ones agree
    by_name = {Path(row.path).name: row for row in atlas.rows}
    assert by_name["small.jpg"].content == by_name["21.jpg"].content != by_name["20.jpg"].content
    assert by_name["bowel_1_score_0-1_00000001.jpg"].video == "nerthus:bowel_1"
    samples = samples_of(atlas.rows)
    assert len(samples) == 23 - 2
    groups = group_numbers(samples)
    frames = {int(g) for s, g in zip(samples, groups, strict=True) if s.datasets == ("nerthus",)}
    assert len(frames) == 1  # three different images, one video
    both = next(s for s in samples if len(s.datasets) == 2 and "barretts" in s.classes)
    assert both.datasets == ("hyperkvasir", "kvasir") and both.classes == ("barretts", "esophagitis")


def test_alike_images_with_different_labels_are_counted(corpus: Path) -> None:
    source = corpus / "kvasir" / "normal-z-line" / "10.jpg"
    Image.open(source).save(corpus / "kvasir" / "polyps" / "again.jpg", quality=50)
    assert alike_conflicts(build_atlas([str(corpus)], 20).rows) == 1


def test_an_atlas_is_stored_and_read_back(corpus: Path, tmp_path: Path) -> None:
    atlas = build_atlas([str(corpus)], 20)
    save_atlas(atlas, tmp_path / "a.parquet")
    assert load_atlas(tmp_path / "a.parquet") == atlas
    (tmp_path / "b.parquet").write_text("nothing")
    with pytest.raises(UserError, match=r"b.parquet: it is no Parquet file"):
        load_atlas(tmp_path / "b.parquet")
    with pytest.raises(UserError, match=r"c.parquet: it does not exist"):
        load_atlas(tmp_path / "c.parquet")


def test_damaged_and_unmapped_images_are_named_and_left_out(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = corpus / "kvasir" / "polyps" / "20.jpg"
    damaged.write_bytes(damaged.read_bytes()[:300])
    image(corpus / "kvasir" / "new-kind" / "x.jpg", 300)
    atlas = build_atlas([str(corpus)], 20)
    assert atlas.info.unreadable == [str(damaged)]
    assert atlas.info.unmapped == {"kvasir": {"new-kind": 1}}
    assert len(atlas.rows) == 22
    warning = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
    assert len(warning) == 1 and str(damaged) in warning[0] and "replace or remove the file" in warning[0]


def test_what_contradicts() -> None:
    polyp = Label("colon", "pathological-findings", "colon-polyp")
    sessile = Label("colon", "pathological-findings", "colon-polyp", "sessile")
    serrated = Label("colon", "pathological-findings", "colon-polyp", "serrated")
    ulcer = Label("colon", "pathological-findings", "colon-ulcer")
    assert not contradict((polyp,), (sessile,))
    assert not contradict((polyp,), (polyp, ulcer))
    assert contradict((polyp,), (ulcer,))
    assert contradict((sessile,), (serrated,))
