"""Frames of a truth by number: groups for intervals, centers, patients, videos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.finding_model import FindingsFile, Frame
from panendofm.challenge.files.names import Key
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
