"""Splits: groups stay whole whatever comes, classes are covered where they can be, and the file keeps its word."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panendofm.atlas import NEAR_DUPLICATE_BITS, build_atlas, load_mappings
from panendofm.atlas.config import SplitConfig
from panendofm.atlas.samples import Sample, group_numbers, samples_of
from panendofm.atlas.split import SPLITS, TEST, TRAIN, VALIDATION, load_split, make_split, save_split
from panendofm.runtime.errors import UserError


def sample(name: str, classes: tuple[str, ...], *links: str, dataset: str = "d") -> Sample:
    return Sample(name, name, (dataset,), (), classes, (f"content {name}", *links))


@st.composite
def many_samples(draw: st.DrawFn) -> list[Sample]:
    n = draw(st.integers(1, 40))
    link = st.sampled_from([f"patient {i}" for i in range(12)] + [f"video {i}" for i in range(12)])
    return [
        sample(
            f"{i:03d}",
            tuple(draw(st.sets(st.sampled_from("abcd"), min_size=1, max_size=2))),
            *draw(st.sets(link, max_size=2)),
            dataset=draw(st.sampled_from(["x", "y"])),
        )
        for i in range(n)
    ]


@settings(max_examples=80)
@given(many_samples(), st.integers(0, 3))
def test_nothing_that_is_linked_is_ever_parted_and_order_does_not_matter(samples: list[Sample], seed: int) -> None:
    split = make_split(samples, SplitConfig(seed=seed))
    sides_of = defaultdict(set)
    for one, side in zip(samples, split.sides.tolist(), strict=True):
        for link in one.linked_by:
            sides_of[link].add(side)
    assert all(len(sides) == 1 for sides in sides_of.values())
    shuffled = samples[:]
    random.Random(seed).shuffle(shuffled)
    again = make_split(shuffled, SplitConfig(seed=seed))
    assert {s.sha256: int(i) for s, i in zip(shuffled, again.sides, strict=True)} == {
        s.sha256: int(i) for s, i in zip(samples, split.sides, strict=True)
    }
    # What is said of a class is what is there.
    for name, entry in split.report.classes.items():
        for i, side in enumerate(SPLITS):
            there = sum(name in s.classes and int(j) == i for s, j in zip(samples, split.sides, strict=True))
            assert getattr(entry, side) == there
        missing = 0 in entry.images()
        assert missing == split.report.unsatisfied.get(name, "").startswith("not evaluable")


def test_groups_join_along_chains() -> None:
    samples = [
        sample("a", ("x",), "patient 1"),
        sample("b", ("x",), "patient 1", "video 2"),
        sample("c", ("x",), "video 2"),
    ]
    samples.append(sample("d", ("x",)))
    assert group_numbers(samples).tolist() == [0, 0, 0, 1]


def test_shares_are_met_when_groups_allow() -> None:
    samples = [sample(f"{i:04d}", ("ab"[i % 2],), dataset="xy"[i % 3 == 0]) for i in range(1000)]
    split = make_split(samples, SplitConfig())
    assert split.report.images == {"train": 750, "validation": 100, "test": 150}
    assert not split.report.unsatisfied
    for name in "ab":
        entry = split.report.classes[name]
        assert abs(entry.train - 375) <= 2 and abs(entry.validation - 50) <= 2 and abs(entry.test - 75) <= 2
    assert make_split(samples, SplitConfig(seed=1)).sides.tolist() != split.sides.tolist()


@pytest.mark.parametrize(
    ("videos", "sides"),
    [(1, {TRAIN}), (2, {TRAIN, TEST}), (3, {TRAIN, VALIDATION, TEST}), (9, {TRAIN, VALIDATION, TEST})],
)
def test_a_rare_class_is_on_as_many_sides_as_its_groups_allow(videos: int, sides: set[int]) -> None:
    rare = [sample(f"r{v}{i}", ("rare",), f"video {v}") for v in range(videos) for i in range(5)]
    common = [sample(f"c{i:03d}", ("common",)) for i in range(200)]
    split = make_split(rare + common, SplitConfig())
    assert set(split.sides[: len(rare)].tolist()) == sides
    if videos < 3:
        assert split.report.unsatisfied["rare"].startswith(f"not evaluable: {videos} group")


def test_the_largest_share_of_a_rare_class_is_trained() -> None:
    samples = [sample(f"{v}{i}", ("rare",), f"video {v}") for v, size in enumerate([10, 3, 2]) for i in range(size)]
    sides = make_split(samples, SplitConfig()).sides
    assert sides[:10].tolist() == [TRAIN] * 10


def test_a_class_whose_other_groups_are_bound_elsewhere_is_still_trained() -> None:
    """Two of the three groups of x must be tested for the sake of rarer classes; the third is the only one to train."""
    samples = [sample("a", ("one", "x")), sample("b", ("two", "x")), sample("c", ("x",))]
    for name in ("one", "two"):
        samples += [sample(f"{name}{i}", (name,), f"video {name}") for i in range(5)]
    sides = make_split(samples, SplitConfig()).sides
    assert sides[:3].tolist() == [TEST, TEST, TRAIN]


def test_a_split_is_stored_with_its_checksum_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    samples = [sample(f"{i:02d}", ("a",)) for i in range(20)]
    split = make_split(samples, SplitConfig())
    path = tmp_path / "x.split.parquet"
    save_split(split, samples, path)
    back = load_split(path, samples[::-1])
    assert back.sides.tolist() == split.sides[::-1].tolist()
    with pytest.raises(UserError, match="1 images are not in this split, the first is new"):
        load_split(path, [*samples, sample("new", ("a",))])
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(UserError, match="its checksum is not the one in"):
        load_split(path, samples)


def _crossing(samples: list[Sample], sides: np.ndarray) -> int:
    sides_of = defaultdict(set)
    for one, side in zip(samples, sides.tolist(), strict=True):
        for link in one.linked_by:
            sides_of[link].add(side)
    return sum(len(s) > 1 for s in sides_of.values())


def test_real_images_are_read_without_unmapped_labels_and_split_by_content(real_images: Path) -> None:
    folders = [str(real_images / name) for name in ("hyperkvasir", "kvasir8")]
    atlas = build_atlas(folders, NEAR_DUPLICATE_BITS)
    assert atlas.info.unmapped == {} and atlas.info.unreadable == []
    assert set(atlas.info.absent) == set(load_mappings()) - {"hyperkvasir", "kvasir"}
    samples = samples_of(atlas.rows)
    assert sum(row.dataset == "hyperkvasir" for row in atlas.rows) == 200
    # The two folders share images: a content is one sample, however many files hold it.
    assert len(samples) < len(atlas.rows)
    split = make_split(samples, SplitConfig())
    assert _crossing(samples, split.sides) == 0
    assert not [why for why in split.report.unsatisfied.values() if why.startswith("not evaluable")]


def test_planted_copies_across_datasets_of_the_synthetic_corpus_stay_together(synthetic_corpus: Path) -> None:
    atlas = build_atlas([str(synthetic_corpus)], NEAR_DUPLICATE_BITS)
    assert {"kvasir", "ers"} <= set(atlas.info.datasets)
    samples = samples_of(atlas.rows)
    split = make_split(samples, SplitConfig())
    assert _crossing(samples, split.sides) == 0
    place = {s.path: (int(g), int(i)) for s, g, i in zip(samples, split.groups, split.sides, strict=True)}
    together = 0
    for leak in json.loads((synthetic_corpus / "truth.json").read_text())["leaks"]:
        copy, original = (str((synthetic_corpus / leak[key]).resolve()) for key in ("path", "evaluation_image"))
        if copy in place:  # the others lie in videos and corpora that the atlas doesn't hold
            assert place[copy] == place[original], leak
            together += 1
    assert together >= 2
    patients = {row.patient for row in atlas.rows if row.dataset == "ers"}
    assert len(patients) > 1 and None not in patients
