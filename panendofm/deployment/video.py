"""`video` mode: frames/s from file to finding, with decoding, cropping and head, one frame at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import av
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from panendofm.backbone import Preprocessing, load_backbone
from panendofm.deployment.benchmark import formats_of, this_machine
from panendofm.deployment.config import TORCH, BenchmarkConfig
from panendofm.deployment.graph import Graph
from panendofm.deployment.results import VideoCell, VideoSpeed
from panendofm.imaging.frame_filters.config import FieldOfViewConfig
from panendofm.imaging.frame_filters.layout import Layout, find_layout
from panendofm.imaging.videos import open_video
from panendofm.linear_probe import HeadConfig, HeadRun, open_head
from panendofm.records.documents import write_document
from panendofm.records.release import ReleaseFolder
from panendofm.runtime.console import say, table
from panendofm.runtime.errors import UserError

TARGETS = (25, 50, 60)  # frames/s of endoscopes
_PROBED = 10  # frames in which the field of view is looked for, once, before the clock runs
_LONGEST_SIDE_PX = 512
_WARM_UP = 3
Frame = NDArray[np.uint8]  # [H, W, 3]


@dataclass
class Clock:
    """Seconds by stage, of each frame."""

    stages: dict[str, list[float]] = field(default_factory=dict)
    _last: float = 0.0

    def start(self) -> None:
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.stages.setdefault(stage, []).append(now - self._last)
        self._last = now

    def whole_ms(self) -> NDArray[np.float64]:
        """Of each frame [N]."""
        return np.asarray(1000 * np.sum([np.array(times) for times in self.stages.values()], axis=0), np.float64)


def time_video(source: Path, video: Path, config: BenchmarkConfig) -> VideoSpeed:
    """Write `config.out` and print the table. Text in frames is not looked for: that has no place in real time."""
    folder, release, formats = formats_of(source, config)
    machine = this_machine(config)
    torch.set_num_threads(machine.threads)
    layout, fps = _probe(video)
    head = _open_head(config, source)
    preprocessing = Preprocessing.from_dict(release.preprocessing)
    patch = int(release.vit["patch_px"])
    cells: list[VideoCell] = []
    for name in formats:
        module = _module(folder, name, patch)
        clock, cpu = _pass(video, layout, preprocessing, module, head, config.frames)
        first = cells[0].frames_per_second if cells else None
        cells.append(_cell(name, clock, cpu, first))
    width, height = _size(video)
    results = VideoSpeed(
        release.name,
        release.architecture,
        release.weights_sha256,
        machine,
        width,
        height,
        fps,
        None if head is None else head.head.info.task,
        cells,
    )
    write_document(Path(config.out), results)
    _say(results, Path(config.out))
    return results


def _module(folder: ReleaseFolder, name: str, patch: int) -> nn.Module:
    return load_backbone(folder.path).model if name == TORCH else Graph(folder.weights(name), patch)


def _open_head(config: BenchmarkConfig, release: Path) -> HeadRun | None:
    if config.head is None:
        return None
    path = Path(config.head)
    head = open_head(path, HeadConfig(device="cpu", network=str(release)))
    kind = head.head.info.kind
    if kind.layers != 1 or kind.patch_mean or kind.blocks:
        raise UserError(
            f"{path}: it reads more than the last cls token, which is all that graphs give fast; name another."
        )
    return head


def _frames(video: Path, most: int) -> Iterator[Frame]:
    try:
        with open_video(video) as container:
            if not container.streams.video:
                raise UserError(f"cannot read the video {video}: there is no video track in it.")
            for number, frame in enumerate(container.decode(video=0)):
                if number == most:
                    return
                yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise UserError(f"cannot read the video {video}: it is damaged or of an unknown kind ({error}).") from error


def _probe(video: Path) -> tuple[Layout | None, float | None]:
    """The field of view, which all frames share, and the video's own rate."""
    frames = list(_frames(video, _PROBED))
    if not frames:
        raise UserError(f"cannot read the video {video}: no frame can be decoded.")
    with open_video(video) as container:
        rate = container.streams.video[0].average_rate
    return find_layout(frames, FieldOfViewConfig(), _LONGEST_SIDE_PX, mask_position_box=True), float(
        rate
    ) if rate else None


def _size(video: Path) -> tuple[int, int]:
    (frame,) = _frames(video, 1)
    return frame.shape[1], frame.shape[0]


@torch.inference_mode()
def _pass(
    video: Path,
    layout: Layout | None,
    preprocessing: Preprocessing,
    module: nn.Module,
    head: HeadRun | None,
    most: int,
) -> tuple[Clock, float]:
    """Times of all frames, and CPU milliseconds of one."""
    blank = torch.zeros(1, 3, preprocessing.crop_px, preprocessing.crop_px)
    for _ in range(_WARM_UP):
        module(blank)
    clock = Clock()
    began = time.process_time()
    clock.start()
    frames = 0
    for frame in _frames(video, most):
        clock.lap("decoding")
        shown = frame if layout is None else layout.blank(layout.crop(frame))
        clock.lap("cropping")
        images = preprocessing(Image.fromarray(shown))[None]  # [1, 3, H, W]
        clock.lap("preparing")
        output = module(images)
        features = output if isinstance(output, torch.Tensor) else output.cls  # [1, D]
        clock.lap("network")
        if head is not None:
            head.finding(features)
        clock.lap("head")
        frames += 1
    return clock, 1000 * (time.process_time() - began) / frames


def _cell(name: str, clock: Clock, cpu_ms: float, first: float | None) -> VideoCell:
    times = clock.whole_ms()
    rate = 1000 / float(times.mean())
    return VideoCell(
        format=name,
        frames=len(times),
        frames_per_second=rate,
        median_ms=float(np.median(times)),
        p95_ms=float(np.quantile(times, 0.95)),
        mean_ms_of={stage: 1000 * float(np.mean(own)) for stage, own in clock.stages.items()},
        keeps_up_with={str(target): rate >= target for target in TARGETS},
        cpu_ms_per_frame=cpu_ms,
        speedup=1.0 if first is None else rate / first,
    )


def _say(results: VideoSpeed, out: Path) -> None:
    rows = [
        [
            cell.format,
            f"{cell.frames_per_second:.1f}",
            f"{cell.median_ms:.1f}",
            f"{cell.p95_ms:.1f}",
            *(f"{cell.mean_ms_of[stage]:.1f}" for stage in ("decoding", "cropping", "preparing", "network", "head")),
            f"{cell.cpu_ms_per_frame:.1f}",
            f"{cell.speedup:.2f}×",
            ", ".join(target for target, met in cell.keeps_up_with.items() if met) or "none",
        ]
        for cell in results.cells
    ]
    machine = results.machine
    title = (
        f"{results.release} ({results.architecture}), {results.width}×{results.height} video, file to finding, on "
        f"{machine.processor}, {machine.threads} threads"
    )
    columns = [
        "format",
        "frames/s",
        "median ms",
        "p95",
        "decode",
        "crop",
        "prepare",
        "network",
        "head",
        "CPU ms",
        "speedup",
    ]
    table(title, [*columns, f"keeps up with {', '.join(map(str, TARGETS))}"], rows)
    say(f"results: {out}" + ("" if results.head else "; without a head: name one by head=… for findings"))
