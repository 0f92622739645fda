"""What truth.json says is in the files: frame counts, layouts of the images, faults, leaks, copies, broken files."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from panendofm.synthetic.truth import Geometry, Source, Truth, read_truth


@pytest.fixture(scope="session")
def truth(synthetic_corpus: Path) -> Truth:
    return read_truth(synthetic_corpus)


@cache
def frames_of(path: Path) -> tuple[list[float], NDArray[np.uint8]]:
    """Times in seconds and gray frames [N, H, W] of a video, decoded to its end."""
    times, frames = [], []
    with av.open(str(path)) as container:
        container.streams.video[0].thread_count = 1
        for frame in container.decode(video=0):
            times.append(float(frame.time or 0.0))
            frames.append(frame.to_ndarray(format="gray"))
    return times, np.stack(frames)


def videos(truth: Truth) -> list[Source]:
    return [source for source in truth.sources if source.media == "video"]


def test_every_good_video_reads_to_its_end(synthetic_corpus: Path, truth: Truth) -> None:
    found = {
        path.relative_to(synthetic_corpus).as_posix() for s in ("*.mp4", "*.avi") for path in synthetic_corpus.rglob(s)
    }
    assert found == {v.path for v in videos(truth)} | {
        d.path for d in truth.defects if d.path.endswith((".mp4", ".avi"))
    }
    for video in videos(truth):
        times, frames = frames_of(synthetic_corpus / video.path)
        geometry = truth.geometry_of(video)
        assert frames.shape == (video.frames, geometry.height, geometry.width), video.path
        steps = np.diff(times)
        assert np.isclose((len(times) - 1) / (times[-1] - times[0]), video.fps, rtol=0.01), video.path
        assert (steps.max() > 1.5 * steps.min()) == video.variable_frame_rate, video.path
    assert {video.codec for video in videos(truth)} == {"h264", "mjpeg", "mpeg4"}
    assert sum(video.variable_frame_rate for video in videos(truth)) == 1
    assert max(video.keyframe_interval for video in videos(truth)) >= 250


def test_images_are_those_listed(synthetic_corpus: Path, truth: Truth) -> None:
    broken = {defect.path for defect in truth.defects}
    for source in truth.sources:
        if source.media == "images":
            files = [
                p
                for p in sorted((synthetic_corpus / source.path).iterdir())
                if p.relative_to(synthetic_corpus).as_posix() not in broken
            ]
            assert len(files) == source.frames, source.path
            drawn = cv2.imread(str(files[-1]))
            assert drawn.shape[:2] == (truth.geometry_of(source).height, truth.geometry_of(source).width)


def good_frame(synthetic_corpus: Path, source: Source) -> NDArray[np.uint8]:
    """The brightest over time: a fault or a dark lumen hides nothing of the layout."""
    if source.media == "video":
        return frames_of(synthetic_corpus / source.path)[1].max(axis=0)
    files = sorted((synthetic_corpus / source.path).glob("*.*"))[: source.frames]
    return np.stack([cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) for path in files]).max(axis=0)


def assert_layout(drawn: NDArray[np.uint8], geometry: Geometry, name: str) -> None:
    """Bright inside the field of view, black outside but for the text and the teal box, each where it should be."""
    view = geometry.field_of_view.mask(geometry.height, geometry.width)
    marks = np.zeros_like(view)
    for left, top, right, bottom in geometry.text_boxes:
        assert not view[top:bottom, left:right].any(), f"{name}: text over the field of view"
        assert (drawn[top:bottom, left:right] > 90).any(), f"{name}: no text where it should be"
        marks[top:bottom, left:right] = True
    if geometry.position_box is not None:
        left, top, right, bottom = geometry.position_box
        inner = drawn[top + 4 : bottom - 4, left + 4 : right - 4]
        assert abs(np.median(inner) - 120) < 12, f"{name}: no teal box"
        assert view[top:bottom, left:right].any(), f"{name}: the teal box covers a part of the field of view"
        marks[top:bottom, left:right] = True
    edge = 4  # codecs smear the edge a little
    kernel = np.ones((2 * edge + 1, 2 * edge + 1), np.uint8)
    far_out = ~cv2.dilate((view | marks).astype(np.uint8), kernel).astype(bool)
    assert (drawn[far_out] < 40).mean() > 0.995 if far_out.any() else True, f"{name}: light in the border"
    deep_in = cv2.erode(geometry.visible_mask().astype(np.uint8), kernel).astype(bool)
    assert (drawn[deep_in] > 40).mean() > 0.75, f"{name}: dark inside the field of view"


def test_every_source_is_laid_out_as_its_geometry_says(synthetic_corpus: Path, truth: Truth) -> None:
    shapes = set()
    for source in truth.sources:
        geometry = truth.geometry_of(source)
        shapes.add(geometry.field_of_view.shape)
        assert_layout(good_frame(synthetic_corpus, source), geometry, source.path)
    assert shapes == {"rectangle", "octagon", "circle"}


def test_labeled_images_are_laid_out_as_their_geometry_says(synthetic_corpus: Path, truth: Truth) -> None:
    by_layout: dict[str, list[NDArray[np.uint8]]] = {}
    for image in truth.evaluation:
        drawn = cv2.imread(str(synthetic_corpus / image.path), cv2.IMREAD_GRAYSCALE)
        by_layout.setdefault(image.geometry, []).append(drawn)
    assert len(by_layout) > 12
    for name, images in by_layout.items():
        assert_layout(np.stack(images).max(axis=0), truth.geometries[name], name)


def test_lesions_of_labeled_images_are_where_the_regions_say(synthetic_corpus: Path, truth: Truth) -> None:
    lines = (synthetic_corpus / "regions.jsonl").read_text(encoding="utf-8").splitlines()
    regions = [json.loads(line) for line in lines]
    images = {image.path: image for image in truth.evaluation}
    of_class: dict[str, set[str]] = {}
    contrast = []
    for region in regions:
        image = images[region["file"]]
        of_class.setdefault(image.label, set()).add(image.path)
        outline = np.array(region["polygon"])
        x1, y1, x2, y2 = region["box"]
        assert (abs(outline.min(axis=0) - (x1, y1)) <= 1).all() and (abs(outline.max(axis=0) - (x2, y2)) <= 2).all()
        visible = truth.geometry_of(image).visible_mask()
        inside = np.zeros(visible.shape, np.uint8)
        cv2.fillPoly(inside, [outline], 1)
        assert visible[inside > 0].mean() > 0.99
        if region["label"] == "dyed-resection-margins":
            drawn = cv2.imread(str(synthetic_corpus / image.path)).astype(np.float64)  # blue first
            blueness = (drawn[..., 0] + 1) / (drawn[..., 2] + 1)
            around = (cv2.dilate(inside, np.ones((25, 25), np.uint8)) > 0) & (inside == 0) & visible
            contrast.append(np.median(blueness[inside > 0]) - np.median(blueness[around]))
    lesions = {"polyps", "dyed-lifted-polyps", "dyed-resection-margins", "normal-cecum"}
    assert of_class == {label: {i.path for i in truth.evaluation if i.label == label} for label in lesions}
    assert np.mean(np.array(contrast) > 0) > 0.9  # a wound is bluer than what is around it


def test_segmented_set_has_masks_of_its_polyps_and_a_third_without(synthetic_corpus: Path, truth: Truth) -> None:
    folder = synthetic_corpus / "Kvasir-SEG"
    listed = json.loads((folder / "kavsir_bboxes.json").read_text())
    assert {p.stem for p in (folder / "images").iterdir()} == {p.stem for p in (folder / "masks").iterdir()}
    assert set(listed) == {Path(drawn.path).stem for drawn in truth.segmented}
    empty = sum(not drawn.boxes for drawn in truth.segmented)
    assert 0.30 < empty / len(truth.segmented) < 0.37
    assert any(len(drawn.boxes) > 1 for drawn in truth.segmented)
    for drawn in truth.segmented:
        path = synthetic_corpus / drawn.path
        mask = cv2.imread(str(folder / "masks" / path.name), cv2.IMREAD_GRAYSCALE) >= 128
        assert mask.shape == (drawn.height, drawn.width) == cv2.imread(str(path)).shape[:2]
        assert mask.any() == bool(drawn.boxes)
        official = [(b["xmin"], b["ymin"], b["xmax"], b["ymax"]) for b in listed[path.stem]["bbox"]]
        assert tuple(official) == drawn.boxes
        covered = np.zeros_like(mask)
        for x1, y1, x2, y2 in drawn.boxes:
            covered[y1:y2, x1:x2] = True
            # Tight: the mask touches all four sides (JPEG moves an edge by a pixel at most).
            inside = mask[y1:y2, x1:x2]
            assert inside[:2].any() and inside[-2:].any() and inside[:, :2].any() and inside[:, -2:].any()
        assert (mask & ~covered).sum() <= 0.01 * mask.sum()


def test_polyps_look_unlike_their_surroundings(synthetic_corpus: Path, truth: Truth) -> None:
    """Masks lie where the polyp was painted: its edge is darker than its inside (its shadow), in most images."""
    darker = []
    for drawn in truth.segmented:
        if drawn.kind != "polyps" or not drawn.boxes:
            continue
        path = synthetic_corpus / drawn.path
        mask = (cv2.imread(str(path.parent.parent / "masks" / path.name), cv2.IMREAD_GRAYSCALE) >= 128).astype(np.uint8)
        gray = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE).astype(float)
        wide, inner = cv2.dilate(mask, np.ones((15, 15))), cv2.erode(mask, np.ones((9, 9)))
        around = (wide > 0) & (mask == 0) & (gray > 12)  # without the black border
        if inner.any() and around.any():
            darker.append(gray[around].mean() < gray[inner > 0].mean())
    assert np.mean(darker) > 0.8


def test_boxes_of_videos_follow_their_objects(synthetic_corpus: Path, truth: Truth) -> None:
    with (synthetic_corpus / "boxes.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    frames: dict[str, set[int]] = defaultdict(set)
    tracks: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        frames[row["file"]].add(int(row["frame"]))
        if row["category"]:
            x, y, w, h = (int(row[name]) for name in "xywh")
            assert x >= 0 and y >= 0 and x + w <= int(row["width"]) and y + h <= int(row["height"])
            tracks[row["file"], row["object"]].append((int(row["frame"]), x + w / 2))
    copies = {duplicate.path for duplicate in truth.duplicates}
    for video in videos(truth):
        if video.path not in copies:
            assert frames[video.path] == set(range(video.frames)), video.path
    steps = [abs(b[1] - a[1]) for track in tracks.values() for a, b in pairwise(track)]
    assert len(tracks) > 20 and np.median(steps) < 4
    annotated = synthetic_corpus / "ldpolypvideo" / "TrainValid" / "Annotations" / "1" / "0001.txt"
    count, *boxes = annotated.read_text().split("\n")[:-1]
    own = [r for r in rows if r["file"] == "ldpolypvideo/TrainValid/Images/1/0001.jpg" and r["category"]]
    assert int(count) == len(boxes) == len(own)
    assert boxes == [f"{x} {y} {x + w} {y + h}" for r in own for x, y, w, h in [tuple(int(r[n]) for n in "xywh")]]


def test_faults_are_where_the_truth_says(synthetic_corpus: Path, truth: Truth) -> None:
    seen = set()
    for video in videos(truth):
        _, frames = frames_of(synthetic_corpus / video.path)
        inside = truth.geometry_of(video).visible_mask().astype(np.uint8)
        light = np.array([cv2.mean(frame, inside)[0] for frame in frames])
        clean = np.ones(video.frames, bool)
        for fault in video.faults:
            stretch = slice(fault.first, fault.last + 1)
            clean[stretch] = False
            seen.add(fault.what)
            if fault.what == "dark":
                assert light[stretch].max() < 30, video.path
            elif fault.what == "washed_out":
                assert light[stretch].min() > 225, video.path
            elif fault.what == "frozen":
                assert max(change(frames[i], frames[i + 1], inside) for i in range(fault.first, fault.last)) < 1.5
            else:
                assert max(sharpness(frame, inside) for frame in frames[stretch][::4]) < 2, video.path
        assert light[clean].min() > 30 and light[clean].max() < 225, video.path
        moving = [i for i in range(0, video.frames - 1, 9) if clean[i] and clean[i + 1]]
        assert np.median([change(frames[i], frames[i + 1], inside) for i in moving]) > 0.3, video.path
        assert np.median([sharpness(frames[i], inside) for i in moving]) > 2, video.path
    assert seen == {"dark", "washed_out", "frozen", "blurred"}


def change(frame: NDArray[np.uint8], following: NDArray[np.uint8], inside: NDArray[np.uint8]) -> float:
    return float(cv2.mean(cv2.absdiff(frame, following), inside)[0])


def sharpness(frame: NDArray[np.uint8], inside: NDArray[np.uint8]) -> float:
    core = cv2.erode(inside, np.ones((9, 9), np.uint8))
    return float(cv2.mean(np.abs(cv2.Laplacian(frame, cv2.CV_32F)), core)[0])


def test_every_leak_shows_its_evaluation_image(synthetic_corpus: Path, truth: Truth) -> None:
    geometry_of = {image.path: truth.geometries[image.geometry] for image in truth.evaluation}
    for leak in truth.leaks:
        original = cv2.imread(str(synthetic_corpus / leak.evaluation_image), cv2.IMREAD_GRAYSCALE)
        if leak.path.endswith((".mp4", ".avi")):
            times, frames = frames_of(synthetic_corpus / leak.path)
            shown = [frames[leak.first], frames[leak.last]]
            other = frames[leak.first - 1]
            assert np.allclose(
                [times[leak.first], times[leak.last]], [leak.first_seconds, leak.last_seconds], atol=0.002
            )
            assert similarity(other, original, geometry_of[leak.evaluation_image], leak.transformation) < 0.9
        else:
            shown = [cv2.imread(str(synthetic_corpus / leak.path), cv2.IMREAD_GRAYSCALE)]
            assert (shown[0].shape == original.shape) == (
                leak.transformation == "re_encoded"
            ) or leak.transformation == "brightness_shifted"
        for frame in shown:
            assert similarity(frame, original, geometry_of[leak.evaluation_image], leak.transformation) > 0.95, leak
    assert {leak.transformation for leak in truth.leaks} == {
        "re_encoded",
        "resized",
        "border_cropped",
        "brightness_shifted",
    }
    assert len({leak.path.split("/")[0] for leak in truth.leaks}) == 4


def similarity(frame: NDArray[np.uint8], original: NDArray[np.uint8], geometry: Geometry, transformation: str) -> float:
    """Correlation of the fields of view, less the teal box."""
    mask = geometry.visible_mask()
    if transformation == "border_cropped":
        left, top, right, bottom = geometry.field_of_view.box
        original, mask = original[top:bottom, left:right], mask[top:bottom, left:right]
    scaled = cv2.resize(frame, (original.shape[1], original.shape[0]), interpolation=cv2.INTER_AREA)
    return float(np.corrcoef(scaled[mask].astype(float), original[mask].astype(float))[0, 1])


def test_every_copy_shows_what_it_copies(synthetic_corpus: Path, truth: Truth) -> None:
    for duplicate in truth.duplicates:
        copy, original = synthetic_corpus / duplicate.path, synthetic_corpus / duplicate.of
        assert (copy.read_bytes() == original.read_bytes()) == (duplicate.how == "byte_copy")
        if duplicate.how != "byte_copy":
            (_, a), (_, b) = frames_of(copy), frames_of(original)
            assert (a.shape[1:] == b.shape[1:]) == (duplicate.how == "re_encoded")
            assert len(a) >= duplicate.frames and len(b) >= duplicate.frames
            for index in (0, duplicate.frames // 2, duplicate.frames - 1):
                scaled = cv2.resize(b[index], (a.shape[2], a.shape[1]), interpolation=cv2.INTER_AREA)
                assert np.corrcoef(a[index].ravel(), scaled.ravel())[0, 1] > 0.98
    pairs = {(d.path.split("/")[0], d.of.split("/")[0]) for d in truth.duplicates}
    assert pairs >= {("endofm-pretrain", "colonoscopicds"), ("endofm-pretrain", "ldpolypvideo")}
    assert not {d.of for d in truth.duplicates} & {leak.path for leak in truth.leaks}


def test_broken_files_are_broken_as_said(synthetic_corpus: Path, truth: Truth) -> None:
    assert {d.what for d in truth.defects} == {"truncated", "no_index", "zero_bytes", "wrong_extension"}
    for defect in truth.defects:
        path = synthetic_corpus / defect.path
        if defect.what == "zero_bytes":
            assert path.stat().st_size == 0
        elif defect.what == "truncated":
            with av.open(str(path)) as container:
                promised = container.streams.video[0].frames
            assert 5 < frames_before_the_cut(path) < promised
        elif defect.what == "no_index":
            with pytest.raises(av.FFmpegError):
                av.open(str(path))
        elif "JPEG" in defect.detail:
            assert path.suffix == ".mp4" and path.read_bytes()[:2] == b"\xff\xd8"
        else:
            assert cv2.imread(str(path)) is None and path.suffix == ".jpg"


def frames_before_the_cut(path: Path) -> int:
    count = 0
    with av.open(str(path)) as container:
        try:
            for _ in container.decode(video=0):
                count += 1
        except av.FFmpegError:
            pass  # where the file ends
    return count
