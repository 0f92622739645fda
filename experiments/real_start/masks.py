"""Masks before and after each later stage: a linear head on frozen patches, by `linear_probe dense`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.real_start.arms import OURS, STAGES, STARTS
from experiments.real_start.experiment import Experiment
from panendofm.reports.numbers import estimate

MASKS_PX = 224  # the side of the images: that of the high-resolution stage


def stage_networks(experiment: Experiment) -> list[Path]:
    """All that the stages began and ended with, but the released model: some begin with that."""
    found = []
    for arm in STARTS:
        begun, ended = experiment.stage_weights(arm)
        found += [ended] if STARTS[arm] == OURS else [begun, ended]
    return found


def mask_rows(experiment: Experiment, released: str, dense: dict[str, Any]) -> list[list[str]]:
    """A row per stage: mIoU when it began and ended, and the difference in points; `dense` is a results.json."""
    ious = {
        outcome["network"]: figures["segmentation"]["iou"]
        for outcome in dense["results"]
        for figures in outcome["tests"].values()
    }
    differences = {}
    for pair in dense["paired_tests"]:
        differences[pair["a"], pair["b"]] = pair["difference"], pair["low"], pair["high"]
        differences[pair["b"], pair["a"]] = -pair["difference"], -pair["high"], -pair["low"]
    rows = []
    for arm, stage in STAGES.items():
        begun, ended = (path.stem for path in experiment.stage_weights(arm))
        begun = released if STARTS[arm] == OURS else begun
        shown = [estimate(iou["value"], iou["low"], iou["high"]) for iou in (ious[begun], ious[ended])]
        value, low, high = (100 * part for part in differences[ended, begun])
        rows.append([stage.title, *shown, f"{value:+.1f} ({low:+.1f} to {high:+.1f})"])
    return rows
