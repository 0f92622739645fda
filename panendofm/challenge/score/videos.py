"""Metrics of detection that need patients or the order of frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from panendofm.challenge.files.finding_model import Finding, Frame
from panendofm.challenge.files.frames import FindingPair, FrameSet
from panendofm.challenge.files.names import Key
from panendofm.challenge.score.results import PatientScores, VideoJitter, VideoScores
from panendofm.scoring.detection.boxes import Matches
from panendofm.scoring.detection.patients import Lesion, Patient, patient_metrics
from panendofm.scoring.detection.video import (
    LatencySummary,
    alarms_per_minute,
    centroid_jitter,
    latency_of_objects,
)
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import estimate, value_and_replicate_weights


def _true_findings(
    frames: FrameSet, category: str, matches: Matches, confidence: float
) -> Iterator[tuple[int, Key, Frame, Finding, bool]]:
    """Every true finding of a category with its number, its frame, and whether a shown detection found it."""
    shown = matches.true_positive & (matches.confidence >= confidence)
    found = set(matches.matched[shown].tolist())
    number = 0
    for key, frame in zip(frames.keys, frames.frames, strict=True):
        for finding in frame.findings:
            if finding.category == category:
                yield number, key, frame, finding, number in found
                number += 1


def _frames_with_false_boxes(at_half: dict[str, Matches], confidence: float) -> set[int]:
    wrong: set[int] = set()
    for matches in at_half.values():
        false = (matches.confidence >= confidence) & ~matches.true_positive & ~matches.ignored
        wrong.update(matches.image[false].tolist())
    return wrong


def patient_scores(
    frames: FrameSet, at_half: dict[str, Matches], confidence: float, bootstrap: BootstrapConfig
) -> PatientScores | None:
    """PDR, ADR and miss rates over patients; lesions are the truth's objects, or single boxes where it has none."""
    if frames.group_kind != "patient":
        return None
    lesions: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    histology: dict[str, str] = {}
    for category, matches in at_half.items():
        for number, _, frame, finding, found in _true_findings(frames, category, matches, confidence):
            name = finding.object or f"{category} {number}"
            lesions[frame.patient][name].append(found)
            histology[name] = finding.histology
    alarmed = {frames.frames[i].patient for i in _frames_with_false_boxes(at_half, confidence)}
    names = sorted({frame.patient for frame in frames.frames})
    patients = []
    for name in names:
        own = lesions.get(name, {})
        found_lesions = tuple(Lesion(histology[lesion] or None, any(hits)) for lesion, hits in own.items())
        patients.append(Patient(found_lesions, name in alarmed))
    weights = value_and_replicate_weights(np.arange(len(names)), bootstrap)
    metrics = patient_metrics(patients, weights)
    return PatientScores(
        patients=len(names),
        lesions=sum(len(patient.lesions) for patient in patients),
        metrics={n: None if v is None else estimate(v, bootstrap.confidence) for n, v in metrics.items()},
    )


def video_scores(
    pair: FindingPair, at_half: dict[str, Matches], confidence: float, fps: float | None
) -> VideoScores | None:
    """Latency, jitter and alarms of files with several frames."""
    keys = pair.frames.keys
    of_file: dict[str, list[int]] = defaultdict(list)
    for i, (name, _) in enumerate(keys):
        of_file[name].append(i)
    videos = [sorted(rows, key=lambda i: keys[i][1]) for rows in of_file.values() if len(rows) > 1]
    if not videos:
        return None
    latency = _latency(pair.frames, at_half, confidence)
    mean_frames = latency.mean_frames if latency else None
    return VideoScores(
        videos=len(videos),
        frames=sum(len(rows) for rows in videos),
        latency=latency,
        mean_latency_seconds=mean_frames / fps if fps and mean_frames is not None else None,
        jitter=_jitter(pair, videos, confidence),
        alarms_per_minute=_alarms_per_minute(pair.frames, videos, at_half, confidence, fps) if fps else None,
    )


def _latency(frames: FrameSet, at_half: dict[str, Matches], confidence: float) -> LatencySummary | None:
    """Over the objects of the truth that have an identity over frames."""
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    hit: dict[tuple[str, str], list[int]] = defaultdict(list)
    for category, matches in at_half.items():
        for _, (name, frame_number), _, finding, found in _true_findings(frames, category, matches, confidence):
            if finding.object:
                seen[name, finding.object].append(frame_number)
                if found:
                    hit[name, finding.object].append(frame_number)
    return latency_of_objects(seen, hit)


def _alarms_per_minute(
    frames: FrameSet, videos: list[list[int]], at_half: dict[str, Matches], confidence: float, fps: float
) -> float:
    wrong = _frames_with_false_boxes(at_half, confidence)
    alarms = minutes = 0.0
    for rows in videos:
        # Files may skip frames: the length is from the first to the last.
        length = frames.keys[rows[-1]][1] - frames.keys[rows[0]][1] + 1
        own_minutes = length / fps / 60
        inside = [frames.keys[i][1] for i in rows if i in wrong]
        alarms += alarms_per_minute(inside, length, fps) * own_minutes
        minutes += own_minutes
    return alarms / minutes


def _jitter(pair: FindingPair, videos: list[list[int]], confidence: float) -> VideoJitter | None:
    """Steps of the detected centers in pixels."""
    true_frames = pair.frames.frames
    steps = residual_steps = 0
    moved_px = residual_px = 0.0
    for rows in videos:
        numbers = [pair.frames.keys[i][1] for i in rows]
        size = true_frames[rows[0]].size or (1, 1)
        for category in {finding.category for i in rows for finding in pair.told[i].findings}:
            detected = _box_centers([pair.told[i] for i in rows], numbers, category, confidence)
            true = _box_centers([true_frames[i] for i in rows], numbers, category, 0.0)
            jitter = centroid_jitter(detected, size, true)
            steps += jitter.steps
            moved_px += (jitter.mean_px or 0.0) * jitter.steps
            residual_steps += jitter.residual_steps
            residual_px += (jitter.mean_residual_px or 0.0) * jitter.residual_steps
    if not steps:
        return None
    return VideoJitter(steps, moved_px / steps, residual_px / residual_steps if residual_steps else None)


def _box_centers(
    frames: list[Frame], numbers: list[int], category: str, confidence: float
) -> list[list[tuple[float, float]]]:
    """Centers frame by frame, with empty lists where the file skips frames."""
    by_number: dict[int, list[tuple[float, float]]] = {}
    for number, frame in zip(numbers, frames, strict=True):
        by_number[number] = [
            f.center
            for f in frame.findings
            if f.center is not None and f.category == category and f.confidence >= confidence
        ]
    return [by_number.get(number, []) for number in range(numbers[0], numbers[-1] + 1)]
