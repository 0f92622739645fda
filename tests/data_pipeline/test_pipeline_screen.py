"""The screens, one by one, on synthetic images whose truth is known."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from data_pipeline import PipelineConfig
from data_pipeline.decode import probe_frames
from data_pipeline.screening.config import DuplicatesConfig
from data_pipeline.screening.duplicates import RepeatedFrames, SourceHashes, copies_across
from data_pipeline.screening.evaluation_sets import thumbnail_of_frame
from panendofm.imaging.frame_filters.config import FieldOfViewConfig, QualityConfig, TextConfig
from panendofm.imaging.frame_filters.field_of_view import detect_field_of_view
from panendofm.imaging.frame_filters.layout import find_layout, find_text_places
from panendofm.imaging.frame_filters.position_box import position_box
from panendofm.imaging.frame_filters.quality import drop_reason, measure
from panendofm.imaging.frame_filters.shrink import shrink
from panendofm.imaging.frame_filters.text import read_text
from panendofm.imaging.leakage import LeakageConfig, build_guard
from panendofm.imaging.leakage.guard import guarded_image
from panendofm.synthetic.scene.devices import TEAL
from panendofm.synthetic.truth import Geometry, Source, Truth, read_truth

Image = NDArray[np.uint8]


@pytest.fixture(scope="module")
def truth(synthetic_corpus: Path) -> Truth:
    return read_truth(synthetic_corpus)


def frames_for_layout(corpus: Path, source: Source) -> list[Image]:
    if source.media == "video":
        return probe_frames(corpus / source.path, 9)
    files = sorted(path for path in (corpus / source.path).iterdir() if path.stat().st_size)
    photos = [cv2.imread(str(path)) for path in files[:: max(1, len(files) // 9)]]
    return [np.ascontiguousarray(photo[..., ::-1]) for photo in photos if photo is not None]


def shares(inside: NDArray[np.bool_], geometry: Geometry) -> tuple[float, float]:
    """Of the visible field of view: how much is kept. Of what lies outside it: how much is kept."""
    visible = geometry.visible_mask()
    outside = ~geometry.field_of_view.mask(geometry.height, geometry.width)
    kept_outside = (inside & outside).sum() / outside.sum() if outside.any() else 0.0
    return float((inside & visible).sum() / visible.sum()), float(kept_outside)


def test_crop_keeps_the_field_of_view_and_nothing_else(synthetic_corpus: Path, truth: Truth) -> None:
    resized = {copy.path for copy in truth.duplicates if copy.how == "resized"}
    kept, outside, shapes = {}, {}, set()
    for source in truth.sources:
        geometry = truth.geometry_of(source)
        view = detect_field_of_view(frames_for_layout(synthetic_corpus, source), FieldOfViewConfig())
        assert view is not None, source.path
        assert view.frame_size == (geometry.width, geometry.height)
        kept[source.path], outside[source.path] = shares(view.mask() > 0, geometry)
        shapes.add(geometry.field_of_view.shape)
    assert shapes == {"octagon", "circle", "rectangle"}
    assert min(kept.values()) >= 0.98, min(kept.items(), key=lambda item: item[1])
    # Copies that were made smaller are blurred over two pixels at their edge; the originals are kept instead of them.
    worst = max((share, path) for path, share in outside.items() if path not in resized)
    assert worst[0] <= 0.02, worst
    assert np.mean(list(outside.values())) <= 0.01


def test_dark_and_small_images_have_no_field_of_view() -> None:
    assert detect_field_of_view([np.zeros((240, 320, 3), np.uint8)], FieldOfViewConfig()) is None
    spot = np.zeros((240, 320, 3), np.uint8)
    cv2.circle(spot, (100, 100), 20, (200, 120, 100), -1)
    assert detect_field_of_view([spot], FieldOfViewConfig()) is None


def test_dark_lumen_at_the_edge_of_one_frame_does_not_cut_a_video() -> None:
    frame = np.zeros((240, 320, 3), np.uint8)
    cv2.circle(frame, (160, 120), 110, (190, 110, 90), -1)
    dark = frame.copy()
    dark[:, :110] = 0
    both = detect_field_of_view([dark, frame], FieldOfViewConfig())
    alone = detect_field_of_view([dark], FieldOfViewConfig())
    assert both is not None and alone is not None
    assert both.box[0] <= 52 and alone.box[0] >= 100
    assert both.shape == "circle"


def test_position_box_is_found_where_it_is_and_only_there(synthetic_corpus: Path, truth: Truth) -> None:
    found = with_box = 0
    for image in truth.evaluation[::2]:
        expected = truth.geometry_of(image).position_box
        photo = cv2.imread(str(synthetic_corpus / image.path))[..., ::-1]
        box = position_box(np.ascontiguousarray(photo))
        assert (box is None) == (expected is None), image.path
        if expected is not None and box is not None:
            with_box += 1
            found += max(abs(a - b) for a, b in zip(box, expected, strict=True)) <= 5
    assert with_box >= 10 and found == with_box


def test_masked_position_box_is_black_and_a_kept_one_is_not(synthetic_corpus: Path, truth: Truth) -> None:
    # An image whose box covers much of its field of view, so that it is still there after the crop.
    sizes = {image.path: hidden_share(truth.geometry_of(image)) for image in truth.evaluation}
    path = max(sizes, key=lambda name: sizes[name])
    photo = np.ascontiguousarray(cv2.imread(str(synthetic_corpus / path))[..., ::-1])
    teal_pixels = {}
    for mask in (True, False):
        layout = find_layout([photo], FieldOfViewConfig(), 512, mask)
        assert layout is not None
        finished = layout.blank(layout.crop(photo)).astype(int)
        teal_pixels[mask] = (np.abs(finished - TEAL).max(axis=2) < 30).mean()
    assert teal_pixels[True] == 0 and teal_pixels[False] > 0.01


def hidden_share(geometry: Geometry) -> float:
    """How much of the field of view the position box hides."""
    whole = geometry.field_of_view.mask(geometry.height, geometry.width)
    return 1 - float(geometry.visible_mask().sum() / whole.sum())


def test_text_inside_the_image_is_painted_over(synthetic_corpus: Path, truth: Truth) -> None:
    image = next(image for image in truth.evaluation if truth.geometry_of(image).position_box is None)
    photo = np.ascontiguousarray(cv2.imread(str(synthetic_corpus / image.path))[..., ::-1])
    photo = cv2.resize(photo, None, fx=1.4, fy=1.4)
    middle = (photo.shape[1] // 2 - 60, photo.shape[0] // 2)
    cv2.putText(photo, "12/03/2014", middle, cv2.FONT_HERSHEY_SIMPLEX, 0.6, (255, 255, 255), 1, cv2.LINE_AA)
    layout = find_layout([photo], FieldOfViewConfig(), 512, True)
    assert layout is not None
    blanked = layout.blank(layout.crop(photo))
    before = read_text(blanked)
    find_text_places(layout, [photo], TextConfig())
    finished, share = layout.without_text(blanked, TextConfig())
    after = read_text(finished)
    assert before.found and before.private
    assert not after.found
    assert 0 < share < 0.15


INSIDE = np.full((200, 200), 255, np.uint8)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda photo: photo, None),
        (lambda photo: (photo * 0.1).astype(np.uint8), "too_dark"),
        (lambda photo: np.clip(photo.astype(int) + 190, 0, 255).astype(np.uint8), "washed_out"),
        (lambda photo: cv2.GaussianBlur(photo, (0, 0), 9), "blurred"),
    ],
)
def test_quality(spoil: object, reason: str | None) -> None:
    random = np.random.default_rng(0)
    coarse = cv2.resize(
        random.uniform(60, 180, (20, 20, 3)).astype(np.float32), (200, 200), interpolation=cv2.INTER_CUBIC
    )
    photo = np.clip(coarse + random.normal(0, 8, coarse.shape), 0, 255).astype(np.uint8)
    assert drop_reason(measure(spoil(photo), INSIDE), QualityConfig()) == reason  # type: ignore[operator]


def test_quality_ignores_what_lies_outside() -> None:
    photo = np.full((200, 200, 3), 255, np.uint8)
    photo[60:140, 60:140] = 90
    inside = np.zeros((200, 200), np.uint8)
    inside[60:140, 60:140] = 255
    quality = measure(photo, inside)
    assert quality.brightness == pytest.approx(90, abs=2) and quality.washed_out == 0


def flipped(bits: int, seed: int = 0) -> NDArray[np.uint8]:
    """A hash that is `bits` away from the zero hash."""
    places = np.random.default_rng(seed).permutation(256)[:bits]
    return np.packbits(np.isin(np.arange(256), places))


def test_frozen_and_repeated_frames() -> None:
    repeated = RepeatedFrames(DuplicatesConfig())
    first, other = flipped(0), flipped(120)
    assert repeated.drop_reason(first) is None
    repeated.keep(first)
    assert repeated.drop_reason(flipped(1)) == "frozen"
    assert repeated.drop_reason(other) is None
    repeated.keep(other)
    assert repeated.drop_reason(flipped(10)) == "near_duplicate", "near the first frame, though not the one before"
    assert repeated.drop_reason(flipped(40)) is None


def test_the_shorter_copy_of_a_video_goes_and_strangers_stay() -> None:
    random = np.random.default_rng(1)
    long = random.integers(0, 256, (20, 32), np.uint8)
    clip = long[5:10].copy()
    clip[:, 0] ^= 0b1
    stranger = random.integers(0, 256, (6, 32), np.uint8)
    sources = [SourceHashes("clip", False, clip), SourceHashes("stranger", False, stranger)]
    sources.append(SourceHashes("long", False, long))
    assert copies_across(sources, DuplicatesConfig()) == {"clip": ("duplicate_video", "long")}
    # Half of the frames in common is the limit: two of six are not a copy.
    mixed = np.concatenate([long[:2], stranger[:4]])
    assert (
        copies_across([SourceHashes("long", False, long), SourceHashes("mixed", False, mixed)], DuplicatesConfig())
        == {}
    )


def test_long_videos_are_compared_only_when_they_agree_in_more_than_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two strangers of thousands of frames agree in some 32 bits somewhere; a copy of one of them is still found."""
    from data_pipeline.screening import duplicates

    random = np.random.default_rng(3)
    one, other = (random.integers(0, 256, (4000, 32), np.uint8) for _ in range(2))
    other[:5, :4] = one[100:105, :4]  # agreements by chance
    copy = one[500:3000].copy()
    flips = np.packbits(random.random((len(copy), 256)) < 16 / 256, axis=1)
    compared = []
    share = duplicates._share_within
    monkeypatch.setattr(duplicates, "_share_within", lambda a, b, bits: compared.append(1) or share(a, b, bits))
    sources = [SourceHashes("one", False, one), SourceHashes("other", False, other)]
    assert copies_across(sources, DuplicatesConfig()) == {} and compared == []
    sources.append(SourceHashes("copy", False, copy ^ flips))
    assert copies_across(sources, DuplicatesConfig()) == {"copy": ("duplicate_video", "one")}


def test_repeated_frames_of_a_long_video_are_found() -> None:
    hashes = np.random.default_rng(4).integers(0, 256, (300, 32), np.uint8)
    repeated = RepeatedFrames(DuplicatesConfig())
    for image_hash in hashes:
        assert repeated.drop_reason(image_hash) is None
        repeated.keep(image_hash)
    assert [repeated.drop_reason(hashes[i]) for i in (0, 63, 64, 200)] == ["near_duplicate"] * 4


def test_shrinking_keeps_the_mean_and_the_place() -> None:
    y, x = np.mgrid[0:720, 0:1281]
    ramp = (40 + x / 10 + y / 10).astype(np.uint8)
    for size in ((512, 288), (384, 216), (256, 100), (1281, 720)):
        small = shrink(ramp, size).astype(float)
        assert small.shape == size[::-1]
        expected = cv2.resize(ramp.astype(np.float32), size, interpolation=cv2.INTER_AREA)
        assert np.abs(small - expected).max() < 2
    fine = np.tile(np.array([0, 255], np.uint8), (640, 640))
    assert np.ptp(shrink(fine, (400, 200)).astype(int)) < 3, "stripes that are too fine turn gray, not into other ones"


def test_single_images_are_kept_once_and_videos_win() -> None:
    frames = np.random.default_rng(2).integers(0, 256, (5, 32), np.uint8)
    sources = [
        SourceHashes("still", True, frames[2:3]),
        SourceHashes("again", True, frames[2:3]),
        SourceHashes("video", False, frames),
    ]
    assert copies_across(sources, DuplicatesConfig()) == {
        "again": ("duplicate_image", "still"),
        "still": ("duplicate_image", "video"),
    }


def test_guard_tells_copies_from_other_images(synthetic_corpus: Path, truth: Truth) -> None:
    config = PipelineConfig()
    images = [image for image in truth.evaluation if image.group is None][::12]
    photos = [np.ascontiguousarray(cv2.imread(str(synthetic_corpus / i.path))[..., ::-1]) for i in images]
    half = len(photos) // 2
    guard = build_guard(
        [guarded_image(f"set/{n}", "", thumbnail_of_frame(p, config)) for n, p in enumerate(photos[:half])]
    )
    for number, photo in enumerate(photos):
        h, w = photo.shape[:2]
        cut = photo[h // 20 : h - h // 20, w // 20 : w - w // 20]
        copy = cv2.resize(
            np.clip(cut * 1.12, 0, 255).astype(np.uint8), None, fx=0.6, fy=0.6, interpolation=cv2.INTER_AREA
        )
        match = guard.match(thumbnail_of_frame(copy, config), LeakageConfig())
        assert (match.name if match else None) == (f"set/{number}" if number < half else None)


def test_an_empty_guard_matches_nothing() -> None:
    photo = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    assert build_guard([]).match(thumbnail_of_frame(photo, PipelineConfig()), LeakageConfig()) is None
