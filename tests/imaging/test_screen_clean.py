"""A single image is cleaned in one way, whoever asks; near-duplicates are told by what the scope saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cleaned_images import recorded
from PIL import Image

from panendofm.atlas import NEAR_DUPLICATE_BITS
from panendofm.imaging.frame_filters.clean import Cleaner, field_of_view_hash
from panendofm.imaging.groups import near_duplicate_groups
from panendofm.imaging.image_hash import perceptual_hash


def test_the_box_and_all_around_the_view_are_gone_and_the_tissue_stays() -> None:
    raw = recorded(1)
    cleaned = Cleaner()(raw)
    assert cleaned.shape[0] < 220 and cleaned.shape[1] < 220, "cut to the view"
    teal = (np.abs(cleaned.astype(int) - (20, 160, 150)).max(axis=2) < 30).mean()
    assert teal == 0
    middle = cleaned[cleaned.shape[0] // 2, cleaned.shape[1] // 2]
    assert middle.min() > 20


def test_a_image_without_a_view_stays_as_it_is() -> None:
    black = np.zeros((60, 80, 3), np.uint8)
    assert (Cleaner()(black) == black).all()


def test_text_is_sought_once_for_each_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from panendofm.imaging.frame_filters import clean

    sought = []
    find = clean.find_text_places
    monkeypatch.setattr(clean, "find_text_places", lambda *words: sought.append(1) or find(*words))
    raw = recorded(2, text="12/03/2019 10:44")
    first = Cleaner(tmp_path)(raw)
    again = Cleaner(tmp_path)(raw)
    assert (first == again).all() and len(sought) == 1
    assert (Cleaner(tmp_path)(recorded(3)) != Cleaner(tmp_path)(recorded(2)))[:10].any() and len(sought) == 3


def test_examinations_do_not_chain_by_their_box_and_border() -> None:
    """Six examinations on one recorder, three near-identical frames of each: six groups of three."""
    images = [recorded(scene, shift=shift) for scene in range(6) for shift in (0, 2, 4)]
    expected = np.repeat(np.arange(6), 3).tolist()
    groups = near_duplicate_groups(np.stack([field_of_view_hash(p) for p in images]), NEAR_DUPLICATE_BITS)
    assert groups.tolist() == expected
    raw = near_duplicate_groups(np.stack([perceptual_hash(p) for p in images]), NEAR_DUPLICATE_BITS)
    assert raw.tolist() != expected, "the images as they are chain, so that this test could fail"


def test_the_stages_group_by_the_field_of_view(tmp_path: Path) -> None:
    """A box that was drawn into one of two copies does not part them for the atlas, the probes and kNN."""
    from panendofm.atlas import image_groups, measure_all, read_labeled_images
    from panendofm.atlas.samples import custom_samples, group_numbers

    for number in range(4):
        folder = tmp_path / "data" / ("one" if number % 2 else "other")
        folder.mkdir(parents=True, exist_ok=True)
        for box in (False, True):
            Image.fromarray(recorded(10 + number, box=box)).save(folder / f"{number}_{box}.png")
    files = sorted((tmp_path / "data").rglob("*.png"))
    measured = list(measure_all(files))
    from panendofm.imaging.groups import content_groups

    by_atlas = content_groups([m.sha256 for m in measured], [m.perceptual_hash for m in measured], NEAR_DUPLICATE_BITS)
    images = read_labeled_images(tmp_path / "data", tmp_path / "cache")
    by_knn = image_groups(images.records, NEAR_DUPLICATE_BITS)
    samples = custom_samples(tmp_path / "data")
    by_probe = {sample.path: group for sample, group in zip(samples, group_numbers(samples).tolist(), strict=True)}
    for groups in (by_atlas, by_knn, [by_probe[str(file.resolve())] for file in files]):
        pairs = {file.name[0]: set() for file in files}
        for file, group in zip(files, np.asarray(groups).tolist(), strict=True):
            pairs[file.name[0]].add(group)
        assert sorted(len(found) for found in pairs.values()) == [1, 1, 1, 1]
        assert len(set.union(*pairs.values())) == 4
