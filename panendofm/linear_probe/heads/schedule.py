"""Cosine learning rate with warm restarts."""

from __future__ import annotations

import math


def warm_restarts(peak: float, epoch: int, first_cycle_epochs: int, cycle_growth: int, floor: float) -> float:
    """The learning rate of an epoch (from 0): peak at the start of a cycle, falling to the floor along half a cosine.

    Cycles last first_cycle_epochs, then cycle_growth times as long each. As torch's CosineAnnealingWarmRestarts,
    stepped once an epoch.
    """
    length, into = first_cycle_epochs, epoch
    while into >= length:
        into -= length
        length *= cycle_growth
    return floor + (peak - floor) * (1 + math.cos(math.pi * into / length)) / 2


def no_progress() -> None:
    """For who does not want to know how far a training is."""
