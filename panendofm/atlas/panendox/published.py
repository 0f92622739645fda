"""What the PanEndoAtlas paper prints of PanEndoX: classes, counts and values, to be shown beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from panendofm.records.documents import parse_document
from panendofm.runtime.yaml_files import read_yaml

_FILE = Path(__file__).resolve().parent / "panendox.yaml"


@dataclass(frozen=True)
class PublishedTask:
    """A row of Tables 2 and 3. `values` are macro-AUC, low and high, one a network."""

    stated_classes: int
    classes: tuple[str, ...]
    note: str
    values: tuple[tuple[float, float, float], ...]

    def ranks(self) -> list[int]:
        """The place of every network, as the printed digits have it; equal values share a place."""
        return [1 + sum(other[0] > value[0] for other in self.values) for value in self.values]


@dataclass(frozen=True)
class StatedCounts:
    """Numbers of the abstract."""

    datasets: int
    countries: int
    hospitals: int
    images: int


@dataclass(frozen=True)
class Places:
    """How often a network comes first, second and third: by the printed values, and by the paper's text."""

    network: str
    counted: tuple[int, int, int]
    stated: tuple[int | None, ...] | None

    @property
    def differs(self) -> bool:
        return self.stated is not None and any(
            said is not None and said != count for said, count in zip(self.stated, self.counted, strict=True)
        )


@dataclass(frozen=True)
class PublishedBenchmark:
    note: str
    networks: tuple[str, ...]
    stated: StatedCounts
    stated_places: dict[str, tuple[int | None, ...]]
    tasks: dict[str, PublishedTask]

    def places(self) -> list[Places]:
        result = []
        for number, name in enumerate(self.networks):
            ranks = [task.ranks()[number] for task in self.tasks.values()]
            counted = (ranks.count(1), ranks.count(2), ranks.count(3))
            result.append(Places(name, counted, self.stated_places.get(name)))
        return result


@cache
def published_panendox() -> PublishedBenchmark:
    return parse_document(PublishedBenchmark, read_yaml(_FILE), _FILE, "the published values of PanEndoX")
