"""record.json: what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.challenge.merge import GoldDocument
from panendofm.challenge.score.results import Results
from panendofm.records.shards import Certificate


@dataclass(frozen=True)
class Independence:
    """From the shard set that the network was trained on: was the test data kept out of it?"""

    shards_named: bool
    certificate: Certificate | None = None  # None: nothing was kept out, or nobody named the shards
    training_frames: int | None = None


@dataclass(frozen=True)
class RecordedResult:
    """A scored submission. `by_part`: its classes, centers, sizes and patients, as text.

    The subsets that it answers best and worst stand in its scores; `images` are the files with images of them.
    """

    results: Results
    by_part: dict[str, str]
    images: list[str]


@dataclass(frozen=True)
class ChecklistItem:
    """A line of a checklist. None: missing."""

    number: str
    topic: str
    content: str | None


@dataclass(frozen=True)
class Record:
    """record.json. None: missing."""

    plan: dict[str, str | None]
    independence: Independence
    data_check: dict[str, int] | None
    gold_standard: GoldDocument | None
    results: list[RecordedResult]
    evidence: dict[str, str]  # checksums by file
    software: dict[str, str]
    stard_ai: list[ChecklistItem]
    format: Literal[3] = 3
