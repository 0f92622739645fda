"""`dense predict`: trained heads on images or on a video."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from panendofm.backbone import device_of
from panendofm.imaging.images import is_image, open_image
from panendofm.imaging.videos import open_video
from panendofm.linear_probe.config import HeadConfig
from panendofm.linear_probe.dense.config import DensePredictConfig
from panendofm.linear_probe.dense.heads.head_file import StoredHeads, load_dense_head
from panendofm.linear_probe.dense.maps import MapMaker, maps_of_image
from panendofm.linear_probe.dense.predictor import Prediction, predict_image
from panendofm.linear_probe.dense.results.outputs import DETECTIONS_NAME, MASKS_NAME, FindingsWriter
from panendofm.linear_probe.dense.results.overlays import TOLD, outlined
from panendofm.linear_probe.heads.head_file import check_fits, network_of_head
from panendofm.runtime.console import progress, say, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import TEMPORARY_MARK, make_directory


class Predictor:
    """Heads and their network, ready for images."""

    def __init__(self, head: Path, config: HeadConfig) -> None:
        self.stored: StoredHeads = load_dense_head(head)
        info = self.stored.info
        network = network_of_head(head, info.word, config.network)
        check_fits(info, head, network)
        self.maker = MapMaker(network, info.preprocessing.crop_px, device_of(config.device, "device"))
        if self.maker.layout != info.layout:
            raise UserError(
                f"{head}: {network.word} gives other feature maps than the head was trained on; train it anew."
            )

    def __call__(self, image: Image.Image) -> Prediction:
        maps = maps_of_image(self.maker, image)
        return predict_image(self.stored.heads, maps, self.stored.info.grid, image.height, image.width)


def find_images(sources: Sequence[str]) -> list[tuple[str, Path]]:
    """Images and the names they get in the tables: paths below a given folder, without endings where they differ."""
    found: list[tuple[str, Path]] = []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if is_image(p))
            if not inside:
                raise UserError(f"{source}: there are no images in it; name another folder.")
            found += [(p.relative_to(path).as_posix(), p) for p in inside]
        elif path.is_file():
            found.append((path.name, path))
        else:
            raise UserError(f"cannot read {source}: it does not exist; check the path.")
    seen: dict[str, Path] = {}
    for name, path in found:
        stem = Path(name).with_suffix("").as_posix()
        if stem in seen:
            raise UserError(f"{path} and {seen[stem]} would share the mask {stem}.png; rename one of them.")
        seen[stem] = path
    return found


def predict_images(head: Path, sources: Sequence[str], config: DensePredictConfig) -> None:
    """Masks as PNG of the image's size, masks.csv and detections.csv."""
    images = find_images(sources)
    predictor = Predictor(head, config)
    out = make_directory(config.out)
    writer = FindingsWriter(out, predictor.stored.info.classes)
    began = time.monotonic()
    for name, path in track(images, "images", len(images), "images"):
        image = open_image(path)
        prediction = predictor(image)
        writer.add(name, prediction.masks, prediction.boxes[predictor.stored.heads.detect_with])
    writer.finish()
    speed = len(images) / max(time.monotonic() - began, 1e-9)
    say(f"{len(images)} images, {speed:.1f} a second → {out / MASKS_NAME}, {DETECTIONS_NAME} and masks/")


def predict_video(head: Path, video: Path, config: DensePredictConfig) -> None:
    """The video with outlines drawn in; it appears when it is complete."""
    out = Path(config.out)
    if out.suffix.lower() not in (".mp4", ".mkv", ".avi"):
        raise UserError(f"out={out}: name a .mp4, .mkv or .avi file for the video.")
    if not video.is_file():
        raise UserError(f"cannot read {video}: it does not exist; check the path.")
    if out.resolve() == video.resolve():
        raise UserError(f"out={out} is the video itself; name another file.")
    predictor = Predictor(head, config)
    make_directory(out.parent)
    temporary = out.with_name(f".{out.stem}{TEMPORARY_MARK}{os.getpid()}{out.suffix}")
    try:
        frames, seconds = _draw_video(predictor, video, temporary)
        temporary.replace(out)
    except av.FFmpegError as error:
        raise UserError(f"cannot read {video}: it is no video, or it is damaged ({error.strerror}).") from error
    finally:
        temporary.unlink(missing_ok=True)
    say(f"{out}: {frames} frames, {frames / max(seconds, 1e-9):.1f} frames a second")


def _draw_video(predictor: Predictor, video: Path, out: Path) -> tuple[int, float]:
    began = time.monotonic()
    frames = 0
    with open_video(video) as source, av.open(str(out), "w") as target:
        if not source.streams.video:
            raise UserError(f"{video}: there are no images in it; name a video.")
        stream = source.streams.video[0]
        drawn = target.add_stream("libx264", rate=stream.average_rate or Fraction(25))
        # H.264 wants even sides: an odd one loses its last row or column of pixels.
        drawn.width, drawn.height = stream.width // 2 * 2, stream.height // 2 * 2
        drawn.pix_fmt = "yuv420p"
        drawn.codec_context.time_base = stream.time_base or Fraction(1, 1000)
        last = -1
        with progress("video", stream.frames or 0, "frames") as bar:
            for frame in source.decode(stream):
                pixels = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
                prediction = predictor(Image.fromarray(pixels))
                shown = outlined(pixels, prediction.masks, TOLD)
                drawn_frame = av.VideoFrame.from_ndarray(
                    np.ascontiguousarray(shown[: drawn.height, : drawn.width]), format="rgb24"
                )
                drawn_frame.time_base = drawn.codec_context.time_base
                last = max(last + 1, frame.pts if frame.pts is not None else last + 1)
                drawn_frame.pts = last
                target.mux(drawn.encode(drawn_frame))
                frames += 1
                bar.advance()
        target.mux(drawn.encode())
    if not frames:
        raise UserError(f"{video}: no frame could be decoded; it is empty or damaged.")
    return frames, time.monotonic() - began
