"""The verb `report`: what a video shows over time, where in the picture, with key frames; Medico's report task.

Research use: it says what a network answers, not what a patient has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from panendofm.linear_probe.config import ReportOptions
from panendofm.linear_probe.heads.head_run import HeadRun, open_head
from panendofm.linear_probe.inference.evidence import in_whole_picture, patch_evidence, weighted_centre
from panendofm.linear_probe.inference.predict import exclusive_head
from panendofm.linear_probe.inference.report_page import report_page, report_text
from panendofm.linear_probe.inference.video import frames_at
from panendofm.runtime.console import progress, say, table
from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, sha256_of, write_json, write_text
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

FORMAT = 1
UNCERTAIN = "uncertain"
QUALITY_LABELS = frozenset({"blurry-nothing", "out-of-patient", UNCERTAIN})
_BATCH = 16
# Questions that the Medico task's gastroenterologists answered about each report.
RATING_FORM = (
    "Is it clear and trustworthy?",
    "What are its limitations?",
    "Is it useful in the clinic?",
    "Suggestions for improvement?",
    "Further findings that would be useful?",
)


@dataclass(frozen=True)
class _Seen:
    """What the network said of every frame."""

    numbers: list[int]
    seconds: list[float]
    probabilities: NDArray[np.float64]  # [N, C]
    evidence: torch.Tensor | None  # [N, C, h, w], or None
    pictures: list[Image.Image]  # small, for key frames
    size: tuple[int, int]


def video_report(
    head_path: Path,
    video: Path,
    weights: str | None,
    out: Path,
    options: ReportOptions,
    device: str,
    truth: Path | None,
) -> dict[str, Any]:
    options.check()
    run = open_head(head_path, weights, device)
    exclusive_head(run.head, head_path)
    seen = _look(run, video, options.fps)
    window = max(1, round(options.window_seconds * options.fps))
    smooth = smooth_probabilities(seen.probabilities, window)
    labels = [
        run.head.classes[int(row.argmax())] if row.max() >= options.minimum_confidence else UNCERTAIN for row in smooth
    ]
    segments = join_short(segments_of(labels), options.minimum_seconds * options.fps)
    final = [segment.label for segment in segments for _ in range(segment.frames)]
    document: dict[str, Any] = {
        "format": FORMAT,
        "note": "research use, not for diagnosis",
        "video": video.name,
        "video_sha256": sha256_of(video) if video.is_file() else None,
        "network": run.network.architecture,
        "weights_sha256": run.network.weights_sha256,
        "head_sha256": sha256_of(head_path),
        "classes": run.head.classes,
        **vars(options),
        "frames": len(labels),
        "seconds": len(labels) / options.fps,
        "shares": shares(final),
        "order_of_events": order_of_events(segments, QUALITY_LABELS),
        "segments": [_segment(run, seen, smooth, s, options.fps) for s in segments],
        "segments_per_minute": len(segments) / (len(labels) / options.fps / 60),
        "rating_form": dict.fromkeys(RATING_FORM, ""),
    }
    if truth is not None:
        document["against_truth"] = _against_truth(truth, segments, options.fps)
    make_directory(out)
    keys = [seen.pictures[_key_frame(run, smooth, s)] for s in segments]
    write_text(out / "report.txt", report_text(document))
    write_text(out / "report.html", report_page(document, keys))
    write_json(out / "report.json", document)
    _say(document, out)
    return document


def _look(run: HeadRun, video: Path, fps: float) -> _Seen:
    numbers, seconds, pictures, parts, evidence = [], [], [], [], []
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
            size = frame.picture.size
            batch.append(frame.picture)
            small = frame.picture.copy()
            small.thumbnail((320, 320))
            pictures.append(small)
            if len(batch) == _BATCH:
                flush()
            bar.advance()
        flush()
    probabilities = torch.cat(parts).double().numpy()
    return _Seen(numbers, seconds, probabilities, torch.cat(evidence) if evidence else None, pictures, size)


def _class_of(run: HeadRun, smooth: NDArray[np.float64], segment: Segment) -> int:
    """The class of a segment; of an uncertain one the most likely."""
    if segment.label in run.head.classes:
        return run.head.classes.index(segment.label)
    return int(smooth[segment.first : segment.end].mean(axis=0).argmax())


def _key_frame(run: HeadRun, smooth: NDArray[np.float64], segment: Segment) -> int:
    """The surest frame of a segment."""
    c = _class_of(run, smooth, segment)
    return segment.first + int(smooth[segment.first : segment.end, c].argmax())


def _segment(run: HeadRun, seen: _Seen, smooth: NDArray[np.float64], segment: Segment, fps: float) -> dict[str, Any]:
    c = _class_of(run, smooth, segment)
    place = None
    if seen.evidence is not None:
        centre = weighted_centre(seen.evidence[segment.first : segment.end, c].sum(0))
        if centre is not None:
            place = in_whole_picture(centre, seen.size, run.network.preprocessing)
    key = _key_frame(run, smooth, segment)
    return {
        "label": segment.label,
        "first_frame": segment.first,
        "end_frame": segment.end,
        "start_seconds": segment.first / fps,
        "end_seconds": segment.end / fps,
        "from": clock(segment.first / fps),
        "to": clock(segment.end / fps),
        "mean_confidence": float(smooth[segment.first : segment.end, c].mean()),
        "zone": zone(*place) if place is not None else None,
        "centre": None if place is None else [round(place[0], 4), round(place[1], 4)],
        "key_frame": seen.numbers[key],
        "key_seconds": seen.seconds[key],
    }


def _against_truth(path: Path, segments: Sequence[Segment], fps: float) -> dict[str, Any]:
    """A CSV start_seconds,end_seconds,label of true events."""
    true = []
    for number, row in enumerate(read_csv(path), 2):
        try:
            first, end = (round(float(row[k]) * fps) for k in ("start_seconds", "end_seconds"))
            true.append(Segment(first, end, row["label"].strip()))
        except (KeyError, ValueError, AttributeError):
            raise UserError(f"{path}, line {number}: it is not start_seconds,end_seconds,label; correct it.") from None
    if not true:
        raise UserError(f"{path}: there is no event in it; write start_seconds,end_seconds,label.")
    found = compare_segments(true, segments)
    return {
        "events": found.events,
        "events_found_at_iou_0.5": found.found,
        "share_of_events_found": found.share_found,
        "segments": found.reported,
        "segment_f1": found.f1,
        "right_frames": found.right_frames,
        "error_of_shares": found.error_of_shares,
    }


def _say(document: dict[str, Any], out: Path) -> None:
    rows = [
        [s["from"], s["to"], s["label"], s["zone"] or "–", f"{s['mean_confidence']:.2f}"] for s in document["segments"]
    ]
    table(f"{document['video']}: {document['seconds']:.0f} s", ["from", "to", "finding", "where", "confidence"], rows)
    say("order of events: " + " → ".join(document["order_of_events"]))
    truth = document.get("against_truth")
    if truth:
        say(
            f"against the truth: {truth['events_found_at_iou_0.5']} of {truth['events']} events found (temporal IoU ≥ "
            f"0.5), F1 of segments {truth['segment_f1']:.3f}, right frames {truth['right_frames']:.3f}"
        )
    say(f"report: {out / 'report.html'}, report.txt, report.json (research use, not for diagnosis)")
