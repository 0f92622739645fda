"""The keys of `python -m data_pipeline synthesize` and `examination`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.runtime.config import option


@dataclass
class SynthesizeConfig:
    """A corpus whose truth is known."""

    size: Literal["small", "demo", "medium", "imbalanced"] = option("How much to make.", "small")
    seed: int = option("Another seed gives other images.", 0)


@dataclass
class ExaminationConfig:
    """A video whose findings over time are known."""

    events: int = option("Findings, one after the other.", 10, low=1)
    seed: int = option("Another seed gives another examination.", 0)
