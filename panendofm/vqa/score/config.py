"""The settings of an encoder that takes part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from panendofm.runtime.config import option, required
from panendofm.vqa.bench.config import PictureConfig


@dataclass
class ContestantConfig:
    """An encoder that answers a bench."""

    data: str = required("The atlas that the bench was built from, or another one with the same labels.")
    out: str = required("Folder for the answers.")
    weights: str = required("The network: a release, a run, or a word such as timm:NAME@FILE.")
    regions: str = option("Regions besides those of the datasets: a JSONL list or a folder of LabelMe files.", "")
    head: Literal["linear", "nearest"] = option(
        "linear: logistic regression; nearest: the most alike picture.", "linear"
    )
    strength: float = option("Inverse of the L2 penalty of the logistic regression.", 1.0)
    name: str = option("What tables call it; empty: the network's name and the head.", "")
    device: str | None = option("Where the network runs; null takes a GPU when there is one.", None)
    pictures: PictureConfig = field(default_factory=PictureConfig)
