"""What the screens of text, field of view and foreign images find and miss: real images are needed.

    python -m benchmarks.screens FOLDER [--every N]

FOLDER holds `kvasir8/`, `hyperkvasir/` and `hyperkvasir-unlabeled/`. `text_free.txt` beside this file names those of
their images that show no text (looked at by eye); every N-th is taken, as it is and with planted text. The rest is
composed (`composed.py`). All goes through the work of `shard` itself, so that the figures of two versions compare.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq
import simplejpeg
from numpy.typing import NDArray

from benchmarks.composed import (
    FONTS,
    FOREIGN,
    GROUNDS,
    WORDS,
    Label,
    bordered,
    corner_label,
    detector_label,
    glittering,
    mucosa,
    octagon,
    opening,
    recorder_screen,
    side_by_side,
    size_of,
    write,
)
from benchmarks.figures import Figure, Size
from data_pipeline import CorpusConfig, PipelineConfig, plan
from data_pipeline.screening.screen_sources import process_unit
from panendofm.imaging.frame_filters.config import FieldOfViewConfig
from panendofm.imaging.frame_filters.field_of_view import detect_field_of_view
from panendofm.imaging.frame_filters.layout import find_layout
from panendofm.imaging.frame_filters.text import read_text
from panendofm.imaging.images import open_image
from panendofm.imaging.leakage import build_guard
from panendofm.synthetic.media import write_image, write_video

Image = NDArray[np.uint8]
SIZES_PX = (6, 8, 10, 12, 16, 24)
KEY = b"k" * 32


@dataclass
class Kept:
    """A frame that passed: its row and its image."""

    row: dict[str, Any]
    image: Image


@dataclass
class Outcome:
    """What became of one file."""

    kept: list[Kept]
    dropped: dict[str, int]
    audit: dict[str, int]


def screened(files: Sequence[Image | list[Image]], settings: Callable[[PipelineConfig], None]) -> list[Outcome]:
    """Images, and videos given as lists of frames, through the pipeline's work, in their order."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "files"
        folder.mkdir()
        for number, file in enumerate(files):
            if isinstance(file, list):
                write_video(folder / f"{number:05d}.mp4", file, "h264", Fraction(1), 5)
            else:
                write_image(folder / f"{number:05d}.png", file)
        config = PipelineConfig(data_root=scratch, out=str(Path(scratch) / "out"))
        config.corpora = {"files": CorpusConfig("folder", "files", license="none")}
        config.screen.text.inside, config.screen.text.reader = "keep", "none"
        config.screen.quality.min_sharpness = 0
        settings(config)
        outcomes: dict[int, Outcome] = {}
        for unit in plan(config).units:
            part = Path(scratch) / f"part{unit.number}"
            process_unit(unit, config, build_guard([]), KEY, part)
            frames = pq.read_table(part / "frames.parquet").to_pylist()
            content = (part / "frames.bin").read_bytes()
            for source in json.loads((part / "sources.json").read_text()):
                rows = [row for row in frames if row["source"] == source["source"]]
                images = [simplejpeg.decode_jpeg(content[r["offset"] : r["offset"] + r["size"]]) for r in rows]
                kept = [Kept(row, picture) for row, picture in zip(rows, images, strict=True)]
                outcomes[int(Path(source["path"]).stem)] = Outcome(kept, source["dropped"], source["audit"])
    return [outcomes[number] for number in range(len(files))]


def filling(config: PipelineConfig) -> None:
    config.screen.text.inside = "fill"


def auditing(config: PipelineConfig) -> None:
    config.screen.text.inside, config.screen.text.reader = "fill", "audit"
    config.duplicates.frozen_bits = config.duplicates.frame_bits = 0


def remains(kept: Kept, planted: Image, clean: Image) -> bool:
    """Whether the difference between a image with and without its text is still there in the finished one."""
    left, top, right, bottom = kept.row["crop"]
    size = (right - left, bottom - top)
    with_text, without = (x[top:bottom, left:right].astype(np.float32) for x in (planted, clean))
    ink = with_text - without
    letters = ink - cv2.GaussianBlur(ink, (0, 0), 4)  # what is painted over is smooth, but may be brighter or darker
    finished = cv2.resize(kept.image, size, interpolation=cv2.INTER_LINEAR).astype(np.float32)
    shown = finished.max(axis=2, keepdims=True) > 12  # elsewhere it was blanked
    strength = float((ink * letters).sum())
    return strength > 0 and float(((finished - without) * letters * shown).sum()) / strength > 0.5


def per_group(groups: Iterable[object], hits: Iterable[bool]) -> str:
    counts: dict[object, list[bool]] = {}
    for group, hit in zip(groups, hits, strict=True):
        counts.setdefault(group, []).append(hit)
    return ", ".join(
        f"{group} {np.mean(values):.2f}" for group, values in sorted(counts.items(), key=lambda x: str(x[0]))
    )


def text_free(folder: Path, every: int) -> list[Image]:
    names = (Path(__file__).with_name("text_free.txt")).read_text(encoding="ascii").split()[::every]
    paths = {path.stem: path for path in sorted(folder.rglob("*.jpg"))}
    return [np.asarray(open_image(paths[name])) for name in names if name in paths]


def measure_false_fills(images: list[Image]) -> None:
    found = screened(images, filling)
    shares = [kept.row["text_filled"] for outcome in found for kept in outcome.kept]
    painted = sum(share > 0 for share in shares)
    share = f"{painted / len(shares):.1%}"
    print(f"text-free images painted: {painted} of {len(shares)} ({share}), at most {max(shares):.1%} of one")
    random = np.random.default_rng(0)
    drawn = [
        opening(mucosa(seed), (random.uniform(140, 340), random.uniform(120, 280)), radius, seed)
        for seed, radius in enumerate([5, 8, 12, 16, 22, 30, 40, 55] * 5)
    ]
    shares = [kept.row["text_filled"] for outcome in screened(drawn, filling) for kept in outcome.kept]
    print(f"drawn openings painted: {sum(share > 0 for share in shares)} of {len(shares)}")


def figures(size: Size) -> list[Figure]:
    """On drawn mucosa, which every machine can draw. `main` measures on real images and tells more."""
    cv2.setNumThreads(1)
    count = 24 if size == "small" else 120
    clean = [mucosa(seed) for seed in range(count)]
    began = time.process_time()
    bare = [kept.row["text_filled"] > 0 for outcome in screened(clean, filling) for kept in outcome.kept]
    seconds = (time.process_time() - began) / count
    with_text = planted(clean, labels(count))
    gone = [
        not any(remains(kept, text, without) for kept in outcome.kept)
        for outcome, text, without in zip(screened(with_text, filling), with_text, clean, strict=True)
    ]
    drawn = f"{count} drawn images, letters of {min(SIZES_PX)} to {max(SIZES_PX)} px"
    return [
        Figure("planted text that is painted over", float(np.mean(gone)), "share", drawn),
        Figure("images without text that are painted", float(np.mean(bare)), "share", drawn),
        Figure("an image without text", 1e3 * seconds, "CPU ms", "field of view, text and the JPEG of the shard"),
    ]


def labels(count: int) -> list[Label]:
    """Planted text of all sizes, contrasts, fonts and turns."""
    random = np.random.default_rng(1)
    return [
        Label(
            WORDS[n % len(WORDS)],
            SIZES_PX[n % len(SIZES_PX)],
            FONTS[int(random.integers(4))],
            color=[(235, 235, 235), (240, 220, 60), (20, 20, 20)][int(random.choice(3, p=[0.7, 0.15, 0.15]))],
            opacity=float(random.choice([1.0, 0.7, 0.45])),
            degrees=float(random.choice([0, 0, 0, 8, 90])),
        )
        for n in range(count)
    ]


def planted(images: Sequence[Image], chosen: Sequence[Label]) -> list[Image]:
    random = np.random.default_rng(2)
    made = []
    for picture, label in zip(images, chosen, strict=True):
        height, width = picture.shape[:2]
        w, _ = size_of(label)
        if label.degrees == 90:
            at = (random.uniform(0.3, 0.6) * width, min(0.75 * height, 0.5 * height + w / 2))
        else:
            at = (random.uniform(0.2, max(0.21, 0.8 - w / width)) * width, random.uniform(0.25, 0.7) * height)
        made.append(write(picture, label, at)[0])
    return made


def cropped(picture: Image) -> Image:
    """To its field of view: beside it there may be text."""
    config = PipelineConfig()
    layout = find_layout([picture], config.screen.field_of_view, config.shards.longest_side_px, True)
    return picture if layout is None else layout.blank(layout.crop(picture))


def measure_planted(images: list[Image]) -> None:
    chosen = labels(len(images))
    small = [
        np.asarray(cv2.resize(p, (352, 240), interpolation=cv2.INTER_AREA)) if n % 3 == 0 else p
        for n, p in enumerate(images)
    ]
    with_text = planted(small, chosen)
    outcomes = screened(with_text, filling)
    gone = [
        not any(remains(kept, text, clean) for kept in outcome.kept)
        for outcome, text, clean in zip(outcomes, with_text, small, strict=True)
    ]
    read = [read_text(text).found for text in with_text]
    groups: dict[str, list[object]] = {
        "letters, px": [label.height_px for label in chosen],
        "opacity": [label.opacity for label in chosen],
        "turned": [label.degrees for label in chosen],
        "font": [label.font for label in chosen],
        "frame": ["352x240" if n % 3 == 0 else "up to 512 px" for n in range(len(chosen))],
    }
    print(f"planted text painted over: {np.mean(gone):.3f} of {len(gone)}")
    for name, group in groups.items():
        print(f"  {name}: {per_group(group, gone)}")
    print(f"planted text that the audit reads: {np.mean(read):.3f}")
    for name, group in groups.items():
        print(f"  {name}: {per_group(group, read)}")
    false = [read_text(picture).found for picture in images[::2]]
    print(f"text-free images on which the audit reads text: {sum(false)} of {len(false)}")


def clip(picture: Image, frames: int = 10) -> list[Image]:
    """A camera that wanders over a image, 352x240."""
    large = cv2.resize(picture, (560, 480), interpolation=cv2.INTER_CUBIC)
    places = [(round(100 + 90 * np.sin(1.3 * i)), round(120 + 100 * np.cos(0.9 * i))) for i in range(frames)]
    return [np.ascontiguousarray(large[y : y + 240, x : x + 352]) for x, y in places]


def measure_videos(images: list[Image]) -> None:
    """Names that stay in a corner of small videos, and a detector's labels that move about in them."""
    cases: dict[str, list[tuple[list[Image], list[Image]]]] = {"a name in a corner": [], "a moving label": []}
    for number, picture in enumerate([*images, *(glittering(seed) for seed in range(3))]):
        clean = clip(picture)
        label = Label(
            WORDS[(0, 3, 6)[number % 3]], (6.5, 8)[number % 2], FONTS[number % 4], opacity=(0.7, 0.35)[number % 2]
        )
        cases["a name in a corner"].append((clean, [write(frame, label, (230, 14))[0] for frame in clean]))
        corners = [(60 + 37 * i % 190, 60 + 53 * i % 90) for i in range(len(clean))]
        moving = [detector_label(f, c, 0.5 + 0.04 * i) for i, (f, c) in enumerate(zip(clean, corners, strict=True))]
        cases["a moving label"].append(([bare for _, bare in moving], [text for text, _ in moving]))
    for name, pairs in cases.items():
        outcomes = screened([text for _, text in pairs], auditing)
        left = kept = said = 0
        for outcome, (clean, text) in zip(outcomes, pairs, strict=True):
            here = sum(remains(k, text[k.row["frame"]], clean[k.row["frame"]]) for k in outcome.kept)
            left, kept = left + here, kept + len(outcome.kept)
            said += here == 0 or outcome.audit.get("after_text", 0) > 0
        print(
            f"{name}: left on {left} of {kept} kept frames; gone, or said by the audit: {said} of {len(pairs)} videos"
        )


def measure_views(images: list[Image]) -> None:
    """Boxes of views on other grounds, beside another view, and under a label."""
    config = FieldOfViewConfig()
    views, found = [], 0
    for picture in images:
        view = detect_field_of_view([picture], config)
        if view is not None:
            left, top, right, bottom = view.box
            views.append(np.asarray(cv2.resize(picture[top:bottom, left:right], (480, 400))))
    shaped = [octagon(view) if n % 2 else view for n, view in enumerate(views)]

    def is_near(frame: Image, box: tuple[int, int, int, int]) -> bool:
        view = detect_field_of_view([frame], config)
        return view is not None and max(abs(a - b) for a, b in zip(view.box, box, strict=True)) <= 0.02 * max(
            frame.shape
        )

    for name, color in GROUNDS.items():
        found = sum(is_near(*recorder_screen(view, color, n)) for n, view in enumerate(shaped))
        print(f"recorder's screen, {name}: view found in {found} of {len(shaped)}")
    found = sum(is_near(*bordered(view, (255, 255, 255), 0.03 + 0.01 * (n % 10))) for n, view in enumerate(shaped))
    print(f"white border: view found in {found} of {len(shaped)}")
    for gap in (0, 4, 24):
        alone = [detect_field_of_view([view], config) for view in shaped[:-1]]
        pairs = [side_by_side(one, other, gap) for one, other in pairwise(shaped)]
        found = sum(a is not None and is_near(pair, a.box) for a, pair in zip(alone, pairs, strict=True))
        print(f"two views, {gap} px apart: the left one found in {found} of {len(pairs)}")
    hidden = 0
    for n, whole in enumerate(shaped):
        frame, (_, _, right, bottom) = corner_label(whole, [(200, 200, 205), (0, 0, 0), (30, 60, 140)][n % 3], n)
        seen = detect_field_of_view([frame], config)
        hidden += seen is not None and float((seen.mask()[:bottom, :right] > 0).mean()) < 0.05
    print(f"corner label: cut out in {hidden} of {len(shaped)}")
    sound = [detect_field_of_view([picture], config) for picture in images]
    cut = sum(view is not None and len(getattr(view, "labels", [])) > 0 for view in sound)
    print(f"real images with a corner cut out: {cut} of {len(images)}")


def measure_foreign(folder: Path, every: int) -> None:
    paths = sorted(folder.rglob("*.jpg"))[::every]
    began = time.process_time()
    outcomes = screened([np.asarray(open_image(path)) for path in paths], lambda config: None)
    lost = [path.stem for path, outcome in zip(paths, outcomes, strict=True) if "not_endoscopy" in outcome.dropped]
    print(
        f"real images dropped as no endoscopy: {len(lost)} of {len(paths)} {lost} ({time.process_time() - began:.0f} s)"
    )
    for name, draw in FOREIGN.items():
        kept = sum(
            bool(outcome.kept) for outcome in screened([draw(seed) for seed in range(100, 140)], lambda config: None)
        )
        print(f"{name}: kept {kept} of 40")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=5, help="3 took four minutes of a core")
    parser.add_argument("--only", choices=["fills", "planted", "videos", "views", "foreign"], default=None)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    began = time.process_time()
    images = text_free(arguments.folder, arguments.every)
    parts: dict[str, Callable[[], None]] = {
        "fills": lambda: measure_false_fills(images),
        "planted": lambda: measure_planted([cropped(picture) for picture in images[::2]]),
        "videos": lambda: measure_videos(images[:3]),
        "views": lambda: measure_views(images[::3]),
        "foreign": lambda: measure_foreign(arguments.folder, arguments.every),
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            part()
            print(f"({time.process_time() - began:.0f} s of the processor so far)", flush=True)


if __name__ == "__main__":
    main()
