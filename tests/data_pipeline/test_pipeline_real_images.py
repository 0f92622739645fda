"""Guard, crop and text screen on real endoscopy images (which are not part of the repository).

The quick tests take a sample; the slow ones take all images and print the figures that the documentation gives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from data_pipeline import PipelineConfig
from data_pipeline.screening.evaluation_sets import read_guarded_images, thumbnail_of_frame
from panendofm.imaging.frame_filters.layout import find_layout, find_text_places
from panendofm.imaging.frame_filters.text import TextFinding, read_text
from panendofm.imaging.leakage import Guard, Match, build_guard

Image = NDArray[np.uint8]


@pytest.fixture(autouse=True)
def one_thread() -> Iterable[None]:
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    yield
    cv2.setNumThreads(before)


def read(path: Path) -> Image:
    return cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR_RGB)


def encoded(image: Image, quality: int) -> Image:
    content = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return cv2.imdecode(content, cv2.IMREAD_COLOR_RGB)


def without_border(image: Image, share: float) -> Image:
    y, x = round(share * image.shape[0]), round(share * image.shape[1])
    return image[y : image.shape[0] - y, x : image.shape[1] - x].copy()


def scaled(image: Image, factor: float) -> Image:
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)


def brighter(image: Image, factor: float) -> Image:
    return np.clip(image.astype(np.float32) * factor, 0, 255).astype(np.uint8)


CHANGES: dict[str, Callable[[Image], Image]] = {
    "re-encoded, JPEG quality 50": lambda image: encoded(image, 50),
    "resized 0.5x": lambda image: scaled(image, 0.5),
    "border cropped 5% per side": lambda image: without_border(image, 0.05),
    "border cropped 10% per side": lambda image: without_border(image, 0.10),
    "left tenth cut off": lambda image: image[:, image.shape[1] // 10 :].copy(),
    "brightness +15%": lambda image: brighter(image, 1.15),
    "brightness -15%": lambda image: brighter(image, 0.85),
    "all: cropped 5%, +15%, 0.5x, quality 60": lambda image: encoded(
        scaled(brighter(without_border(image, 0.05), 1.15), 0.5), 60
    ),
}


class Evaluation:
    """The guard over kvasir8 and what it says of an image."""

    def __init__(self, folder: Path) -> None:
        self.config = PipelineConfig()
        self.folder = folder
        self.paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))
        self._images = read_guarded_images(folder, folder.name, self.paths, self.config)
        self.guard: Guard = build_guard(self._images)

    def match(self, image: Image) -> Match | None:
        return self.guard.match(thumbnail_of_frame(image, self.config), self.config.leakage)

    def recall(self, change: Callable[[Image], Image], every: int) -> float:
        chosen = self.paths[::every]
        hits = 0
        for path in chosen:
            match = self.match(change(read(self.folder / path)))
            hits += match is not None and match.name == f"{self.folder.name}/{path}"
        return hits / len(chosen)

    def false_drops_of_others(self, others: list[Path]) -> list[tuple[str, Match]]:
        checked = ((path.name, self.match(read(path))) for path in others)
        return [(name, match) for name, match in checked if match is not None]

    def false_drops_without_itself(self, every: int) -> list[tuple[str, Match]]:
        """Each image against the guard without that image: other files of the same archive, the hardest negatives."""
        found = []
        for number in range(0, len(self.paths), every):
            rest = build_guard([image for i, image in enumerate(self._images) if i != number])
            match = rest.match(
                thumbnail_of_frame(read(self.folder / self.paths[number]), self.config), self.config.leakage
            )
            if match is not None:
                found.append((self.paths[number], match))
        return found


@pytest.fixture(scope="module")
def evaluation(real_images: Path) -> Evaluation:
    return Evaluation(real_images / "kvasir8")


def other_files(real_images: Path) -> list[Path]:
    """HyperKvasir images that are not, byte by byte, in kvasir8."""
    inside = {hashlib.sha256(path.read_bytes()).digest() for path in (real_images / "kvasir8").rglob("*.jpg")}
    files = sorted((real_images / "hyperkvasir").rglob("*.jpg"))
    return [path for path in files if hashlib.sha256(path.read_bytes()).digest() not in inside]


def test_guard_finds_changed_copies_of_a_sample(evaluation: Evaluation) -> None:
    for name in ("border cropped 5% per side", "all: cropped 5%, +15%, 0.5x, quality 60"):
        assert evaluation.recall(CHANGES[name], every=16) == 1.0, name


def test_guard_keeps_a_sample_of_other_files(evaluation: Evaluation, real_images: Path) -> None:
    others = other_files(real_images)[::6]
    assert len(others) > 20
    assert evaluation.false_drops_of_others(others) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_guard_on_all_images(evaluation: Evaluation, real_images: Path) -> None:
    recalls = {name: evaluation.recall(change, every=1) for name, change in CHANGES.items()}
    for name, recall in recalls.items():
        print(f"recall {recall:.4f}  {name} ({len(evaluation.paths)} images)")
    others = other_files(real_images)
    false = evaluation.false_drops_of_others(others)
    print(f"false drops {len(false)} of {len(others)} HyperKvasir images of other files: {false}")
    own = evaluation.false_drops_without_itself(every=1)
    print(f"matches to another file {len(own)} of {len(evaluation.paths)} kvasir8 images: {own}")
    assert min(recalls.values()) >= 0.98
    # Two of these matches are one pair, the same view three seconds apart by the burned-in clock; they are counted.
    assert (len(false) + len(own)) / (len(others) + len(evaluation.paths)) <= 0.005


def finished(image: Image, config: PipelineConfig) -> Image | None:
    """A single image as it would stand in a shard."""
    layout = find_layout([image], config.screen.field_of_view, config.shards.longest_side_px, True)
    if layout is None:
        return None
    find_text_places(layout, [image], config.screen.text)
    return layout.without_text(layout.blank(layout.crop(image)), config.screen.text)[0]


def text_rates(paths: list[Path], config: PipelineConfig) -> tuple[float, float]:
    """Shares of finished images with text, and with a date, time or patient field."""
    found: list[TextFinding] = []
    for path in paths:
        image = finished(read(path), config)
        if image is not None:
            found.append(read_text(image))
            if found[-1].found:
                print(f"text is left on {path.name}")
    return float(np.mean([f.found for f in found])), float(np.mean([f.private for f in found]))


def test_text_is_found_before_and_gone_after_screening(real_images: Path) -> None:
    config = PipelineConfig()
    paths = sorted((real_images / "kvasir8" / "polyps").glob("*.jpg"))[:12:2]
    before = [read_text(read(path)) for path in paths[:3]]
    assert any(finding.private for finding in before)
    assert text_rates(paths[:3], config) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_text_rates_on_all_images(real_images: Path) -> None:
    paths = sorted(real_images.rglob("*.jpg"))
    text, private = text_rates(paths, PipelineConfig())
    print(f"after screening: text on {text:.2%} of {len(paths)} images, dates or patient fields on {private:.2%}")
    assert text <= 0.03 and private <= 0.01


@pytest.mark.slow
def test_quality_screens_keep_real_images(real_images: Path) -> None:
    from panendofm.imaging.frame_filters.quality import drop_reason, measure

    config = PipelineConfig()
    dropped = []
    paths = sorted(real_images.rglob("*.jpg"))
    for path in paths:
        image = read(path)
        layout = find_layout([image], config.screen.field_of_view, config.shards.longest_side_px, True)
        assert layout is not None, path
        reason = drop_reason(measure(layout.blank(layout.crop(image)), layout.visible), config.screen.quality)
        if reason is not None:
            dropped.append((path.name, reason))
    print(f"dropped for quality: {len(dropped)} of {len(paths)}: {dropped}")
    assert len(dropped) <= 0.01 * len(paths)
