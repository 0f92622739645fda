"""The verb `report`: what a video shows over time, where in the image, with key frames; Medico's report task.

Research use: it says what a network answers, not what a patient has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from panendofm.linear_probe.config import ReportConfig
from panendofm.linear_probe.heads.head_run import HeadRun, open_exclusive_head
from panendofm.linear_probe.inference.evidence import in_whole_image, patch_evidence, weighted_center
from panendofm.linear_probe.inference.report_document import (
    RATING_FORM,
    AgainstTruth,
    ReportedSegment,
    VideoReport,
    write_video_report,
)
from panendofm.linear_probe.inference.report_page import report_page, report_text
from panendofm.linear_probe.inference.video import frames_at
from panendofm.reports.numbers import number
from panendofm.runtime.console import progress, say, table
from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, sha256_of, write_text
from panendofm.scoring.detection.timeline import (
    Segment,
    clock,
    compare_segments,
    join_short,
    order_of_events,
    segments_of,
    shares,
    smooth_probabilities,
    zone,
)

UNCERTAIN = "uncertain"
QUALITY_LABELS = frozenset({"blurry-nothing", "out-of-patient", UNCERTAIN})
_BATCH = 16
_KEY_FRAME_PX = 320


@dataclass(frozen=True)
class _Seen:
    """What the network said of every frame."""

    numbers: list[int]
    seconds: list[float]
    probabilities: NDArray[np.float64]  # [N, C]
    evidence: torch.Tensor | None  # [N, C, h, w], or None
    images: list[Image.Image]  # small, for key frames
    size: tuple[int, int]


def video_report(head_path: Path, video: Path, config: ReportConfig) -> VideoReport:
    run = open_exclusive_head(head_path, config)
    classes = run.head.info.classes
    seen = _look(run, video, config.fps)
    window = max(1, round(config.window_seconds * config.fps))
    smooth = smooth_probabilities(seen.probabilities, window)
    labels = [classes[int(row.argmax())] if row.max() >= config.minimum_confidence else UNCERTAIN for row in smooth]
    segments = join_short(segments_of(labels), config.minimum_seconds * config.fps)
    final = [segment.label for segment in segments for _ in range(segment.frames)]
    seconds = len(labels) / config.fps
    report = VideoReport(
        video=video.name,
        video_sha256=sha256_of(video) if video.is_file() else None,
        network=run.network.architecture,
        weights_sha256=run.network.weights_sha256,
        head_sha256=sha256_of(head_path),
        classes=classes,
        fps=config.fps,
        window_seconds=config.window_seconds,
        minimum_confidence=config.minimum_confidence,
        minimum_seconds=config.minimum_seconds,
        frames=len(labels),
        seconds=seconds,
        shares=shares(final),
        order_of_events=order_of_events(segments, QUALITY_LABELS),
        segments=[_segment(run, seen, smooth, segment, config.fps) for segment in segments],
        segments_per_minute=len(segments) / (seconds / 60),
        rating_form=dict.fromkeys(RATING_FORM, ""),
        against_truth=_against_truth(Path(config.truth), segments, config.fps) if config.truth else None,
    )
    out = make_directory(config.out)
    key_frames = [seen.images[_key_frame(run, smooth, segment)] for segment in segments]
    write_text(out / "report.txt", report_text(report))
    write_text(out / "report.html", report_page(report, key_frames))
    write_video_report(out / "report.json", report)
    _say(report, out)
    return report


def _look(run: HeadRun, video: Path, fps: float) -> _Seen:
    numbers: list[int] = []
    seconds: list[float] = []
    small: list[Image.Image] = []
    parts: list[torch.Tensor] = []
    evidence: list[torch.Tensor] = []
    batch: list[Image.Image] = []
    size = (0, 0)

    def flush() -> None:
        if batch:
            images = run.prepare(batch)
            parts.append(run.answer(images))
            found = patch_evidence(run, images)
            if found is not None:
                evidence.append(found)
            batch.clear()

    with progress("frames", 0, "frames") as bar:
        for frame in frames_at(video, fps):
            numbers.append(frame.number)
            seconds.append(frame.seconds)
            size = frame.image.size
            batch.append(frame.image)
            key_frame = frame.image.copy()
            key_frame.thumbnail((_KEY_FRAME_PX, _KEY_FRAME_PX))
            small.append(key_frame)
            if len(batch) == _BATCH:
                flush()
            bar.advance()
        flush()
    probabilities = torch.cat(parts).double().numpy()
    return _Seen(numbers, seconds, probabilities, torch.cat(evidence) if evidence else None, small, size)


def _class_of(run: HeadRun, smooth: NDArray[np.float64], segment: Segment) -> int:
    """The class of a segment; of an uncertain one the most likely."""
    if segment.label in run.head.info.classes:
        return run.head.info.classes.index(segment.label)
    return int(smooth[segment.first : segment.end].mean(axis=0).argmax())


def _key_frame(run: HeadRun, smooth: NDArray[np.float64], segment: Segment) -> int:
    """The surest frame of a segment."""
    c = _class_of(run, smooth, segment)
    return segment.first + int(smooth[segment.first : segment.end, c].argmax())


def _segment(run: HeadRun, seen: _Seen, smooth: NDArray[np.float64], segment: Segment, fps: float) -> ReportedSegment:
    c = _class_of(run, smooth, segment)
    place = None
    if seen.evidence is not None:
        center = weighted_center(seen.evidence[segment.first : segment.end, c].sum(0))
        if center is not None:
            place = in_whole_image(center, seen.size, run.network.preprocessing)
    key = _key_frame(run, smooth, segment)
    return ReportedSegment(
        label=segment.label,
        first_frame=segment.first,
        end_frame=segment.end,
        start_seconds=segment.first / fps,
        end_seconds=segment.end / fps,
        start_clock=clock(segment.first / fps),
        end_clock=clock(segment.end / fps),
        mean_confidence=float(smooth[segment.first : segment.end, c].mean()),
        zone=None if place is None else zone(*place),
        center=None if place is None else (round(place[0], 4), round(place[1], 4)),
        key_frame=seen.numbers[key],
        key_seconds=seen.seconds[key],
    )


def _against_truth(path: Path, segments: Sequence[Segment], fps: float) -> AgainstTruth:
    """A CSV start_seconds,end_seconds,label of true events."""
    true = []
    for line, row in enumerate(read_csv(path), 2):
        try:
            first, end = (round(float(row[k]) * fps) for k in ("start_seconds", "end_seconds"))
            true.append(Segment(first, end, row["label"].strip()))
        except (KeyError, ValueError, AttributeError):
            raise UserError(f"{path}, line {line}: it is not start_seconds,end_seconds,label; correct it.") from None
    if not true:
        raise UserError(f"{path}: there is no event in it; write start_seconds,end_seconds,label.")
    found = compare_segments(true, segments)
    return AgainstTruth(
        events=found.events,
        events_found=found.found,
        share_of_events_found=found.share_found,
        segments=found.reported,
        segment_f1=found.f1,
        right_frames=found.right_frames,
        error_of_shares=found.error_of_shares,
    )


def _say(report: VideoReport, out: Path) -> None:
    rows = [[s.start_clock, s.end_clock, s.label, s.zone or "–", number(s.mean_confidence, 2)] for s in report.segments]
    table(f"{report.video}: {report.seconds:.0f} s", ["from", "to", "finding", "where", "confidence"], rows)
    say("order of events: " + " → ".join(report.order_of_events))
    truth = report.against_truth
    if truth is not None:
        say(
            f"against the truth: {truth.events_found} of {truth.events} events found (temporal IoU ≥ 0.5), F1 of "
            f"segments {number(truth.segment_f1)}, right frames {number(truth.right_frames)}"
        )
    say(f"report: {out / 'report.html'}, report.txt, report.json ({report.note})")
