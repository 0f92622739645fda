"""Figures of detection that need patients or the order of frames."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from panendofm.challenge.files.finding_model import Frame
from panendofm.challenge.files.frames import FrameSet
from panendofm.challenge.score.format_metric import figure
from panendofm.scoring.detection.boxes import Boxes, Matches
from panendofm.scoring.detection.patients import Lesion, Patient, patient_figures
from panendofm.scoring.detection.video import alarms_per_minute, centroid_jitter, detection_latency, latency_summary
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.intervals import group_weights


def patient_results(
    frames: FrameSet,
    at_half: dict[str, Matches],
    pairs: dict[str, tuple[Boxes, Boxes]],
    confidence: float,
    bootstrap: BootstrapConfig,
) -> dict[str, Any] | None:
    """PDR, ADR and miss rates over patients; lesions are the truth's objects, or single boxes where it has none."""
    if frames.group_kind != "patient":
        return None
    lesions: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    histology: dict[str, str] = {}
    alarmed: set[str] = set()
    for category, matches in at_half.items():
        shown = matches.true_positive & (matches.confidence >= confidence)
        found = set(matches.matched[shown].tolist())
        number = 0
        for frame in frames.frames:
            for finding in frame.findings:
                if finding.category != category:
                    continue
                name = finding.object or f"{category} {number}"
                lesions[frame.patient][name].append(number in found)
                histology[name] = finding.histology
                number += 1
        wrong = (matches.confidence >= confidence) & ~matches.true_positive & ~matches.ignored
        alarmed |= {frames.frames[p].patient for p in matches.picture[wrong].tolist()}
    names = sorted({frame.patient for frame in frames.frames})
    patients = [
        Patient(
            tuple(Lesion(histology[k] or None, any(hits)) for k, hits in lesions.get(name, {}).items()), name in alarmed
        )
        for name in names
    ]
    weights = group_weights(np.arange(len(names)), bootstrap.samples, bootstrap.seed)
    one, many = patient_figures(patients), patient_figures(patients, weights)
    figures = {
        name: None if value is None else figure(value, many[name], bootstrap.confidence) for name, value in one.items()
    }
    return {"patients": len(names), "lesions": sum(len(p.lesions) for p in patients), "figures": figures}


def video_results(
    frames: FrameSet,
    told: list[Frame],
    at_half: dict[str, Matches],
    pairs: dict[str, tuple[Boxes, Boxes]],
    confidence: float,
    fps: float | None,
) -> dict[str, Any] | None:
    """Latency, jitter and alarms of files with several frames."""
    of_file: dict[str, list[int]] = defaultdict(list)
    for i, (name, _) in enumerate(frames.keys):
        of_file[name].append(i)
    videos = {name: sorted(rows, key=lambda i: frames.keys[i][1]) for name, rows in of_file.items() if len(rows) > 1}
    if not videos:
        return None
    result: dict[str, Any] = {"videos": len(videos), "frames": sum(len(rows) for rows in videos.values())}
    latencies = _latencies(frames, at_half, confidence)
    if latencies:
        summary = latency_summary(latencies)
        result["latency"] = {
            "objects": summary.objects,
            "found": summary.found,
            "missed": summary.missed,
            "mean_frames": summary.mean_frames,
            "median_frames": summary.median_frames,
            "mean_seconds": summary.mean_frames / fps if fps and summary.mean_frames is not None else None,
        }
    result["jitter"] = _jitter(frames, told, videos, confidence)
    if fps:
        wrong: set[int] = set()
        for matches in at_half.values():
            false = (matches.confidence >= confidence) & ~matches.true_positive & ~matches.ignored
            wrong |= set(matches.picture[false].tolist())
        alarms = minutes = 0.0
        for rows in videos.values():
            length = frames.keys[rows[-1]][1] - frames.keys[rows[0]][1] + 1
            inside = [frames.keys[i][1] for i in rows if i in wrong]
            alarms += alarms_per_minute(inside, length, fps) * length / fps / 60
            minutes += length / fps / 60
        result["alarms_per_minute"] = alarms / minutes if minutes else None
    return result


def _latencies(frames: FrameSet, at_half: dict[str, Matches], confidence: float) -> list[int | None]:
    """Of each object of the truth that has an identity over frames."""
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    hit: dict[tuple[str, str], list[int]] = defaultdict(list)
    for category, matches in at_half.items():
        shown = matches.true_positive & (matches.confidence >= confidence)
        found = set(matches.matched[shown].tolist())
        number = 0
        for (name, frame_number), frame in zip(frames.keys, frames.frames, strict=True):
            for finding in frame.findings:
                if finding.category != category:
                    continue
                if finding.object:
                    seen[name, finding.object].append(frame_number)
                    if number in found:
                        hit[name, finding.object].append(frame_number)
                number += 1
    return [detection_latency([(f, f) for f in visible], hit[name]) for name, visible in seen.items()]


def _jitter(
    frames: FrameSet, told: list[Frame], videos: dict[str, list[int]], confidence: float
) -> dict[str, Any] | None:
    """Steps of the detected centres in pixels; over the diagonal where the size is known."""
    totals = {"steps": 0, "px": 0.0, "residual": 0.0, "residual_steps": 0}
    for rows in videos.values():
        numbers = [frames.keys[i][1] for i in rows]
        size = frames.frames[rows[0]].size or (1, 1)
        for category in {f.category for i in rows for f in told[i].findings}:
            detected = _centres([told[i] for i in rows], numbers, category, confidence)
            true = _centres([frames.frames[i] for i in rows], numbers, category, 0.0)
            jitter = centroid_jitter(detected, size, true)
            if jitter.mean_px is not None:
                totals["steps"] += jitter.steps
                totals["px"] += jitter.mean_px * jitter.steps
            if jitter.mean_residual_px is not None:
                totals["residual"] += jitter.mean_residual_px * jitter.residual_steps
                totals["residual_steps"] += jitter.residual_steps
    if not totals["steps"]:
        return None
    return {
        "steps": int(totals["steps"]),
        "mean_px": totals["px"] / totals["steps"],
        "mean_residual_px": totals["residual"] / totals["residual_steps"] if totals["residual_steps"] else None,
    }


def _centres(
    frames: list[Frame], numbers: list[int], category: str, confidence: float
) -> list[list[tuple[float, float]]]:
    """Centres frame by frame, with empty lists where the file skips frames."""
    by_number: dict[int, list[tuple[float, float]]] = {}
    for number, frame in zip(numbers, frames, strict=True):
        by_number[number] = [
            (f.box[0] + f.box[2] / 2, f.box[1] + f.box[3] / 2)
            for f in frame.findings
            if f.box is not None and f.category == category and f.confidence >= confidence
        ]
    return [by_number.get(n, []) for n in range(numbers[0], numbers[-1] + 1)]
