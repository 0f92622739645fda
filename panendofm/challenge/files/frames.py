"""Boxes or masks of two sides, checked against each other, and the truth's frames by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.finding_model import FindingsFile, Frame, Kind
from panendofm.challenge.files.findings import aligned, read_findings
from panendofm.challenge.files.names import Key, Match
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class FrameSet:
    keys: tuple[Key, ...]
    frames: tuple[Frame, ...]
    groups: NDArray[np.int64]  # [N]
    group_kind: str

    def __len__(self) -> int:
        return len(self.keys)

    def inside(self, center: str) -> NDArray[np.bool_]:
        return np.array([frame.center == center for frame in self.frames])

    @property
    def centers(self) -> list[str]:
        return sorted({frame.center for frame in self.frames if frame.center})


def frame_set(truth: FindingsFile) -> FrameSet:
    """Groups are patients where known, else given groups, else files: frames of one video are not independent."""
    keys, frames = tuple(truth.frames), tuple(truth.frames.values())
    for kind in ("patient", "group"):
        names = [getattr(frame, kind) for frame in frames]
        if all(names):
            return FrameSet(keys, frames, _numbers(names), kind)
        if any(names):
            empty = frames[names.index("")]
            raise truth.fail(empty.line, f"the {kind} is empty; fill it everywhere or leave the column out.")
    files = [name for name, _ in keys]
    return FrameSet(keys, frames, _numbers(files), "video" if len(set(files)) < len(files) else "image")


def _numbers(names: Sequence[str]) -> NDArray[np.int64]:
    return np.unique(list(names), return_inverse=True)[1].astype(np.int64)


def classes_of(truth: FindingsFile, given: Sequence[str]) -> tuple[str, ...]:
    if not given:
        if not truth.classes:
            raise UserError(f"{truth.path}: no frame holds a finding; name them with classes=[…].")
        return truth.classes
    for name in truth.classes:
        if name not in given:
            raise UserError(f"{truth.path}: the category '{name}' is not among classes=[…]; add it there.")
    return tuple(given)


@dataclass(frozen=True)
class FindingPair:
    """A truth and a prediction about the same frames and classes."""

    truth: FindingsFile
    prediction: FindingsFile
    frames: FrameSet
    told: tuple[Frame, ...]  # the prediction's frames in the order of the truth's
    classes: tuple[str, ...]


def read_pair(
    truth_path: Path,
    prediction_path: Path,
    kind: Kind,
    separator: str = ",",
    match: Match = "stem",
    classes: Sequence[str] = (),
    predicted: Kind | None = None,
) -> FindingPair:
    """`predicted`: what the prediction holds where it is not what the truth holds: points for masks."""
    truth = read_findings(truth_path, "truth", kind, separator, match)
    prediction = read_findings(prediction_path, "prediction", predicted or kind, separator, match)
    every = classes_of(truth, classes)
    frames = frame_set(truth)
    answers = aligned(truth, prediction, match, every)
    return FindingPair(truth, prediction, frames, tuple(answers[key] for key in frames.keys), every)
