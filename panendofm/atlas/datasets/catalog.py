"""What is known of a dataset beside its labels: where it comes from, how to get it, what was tried on real files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Instrument = Literal["gastroscope", "colonoscope", "capsule"]
# The scope that shows a region, where a dataset was taken with several.
_SCOPE_OF: dict[str, Instrument] = {"esophagus": "gastroscope", "stomach": "gastroscope", "colon": "colonoscope"}


@dataclass(frozen=True)
class About:
    """A dataset's record. What the layout and the counts were checked on, `checked` says in words."""

    year: int
    countries: tuple[str, ...]
    hospitals: tuple[str, ...]
    instruments: tuple[Instrument, ...]
    access: str  # where to get it or to ask for it
    images: int | None  # labeled images to expect; None: not known
    checked: str
    real_files: bool = False  # whether the layout was read from real files
    devices: str = "not stated"
    unnamed_hospitals: int = 0
    table1: int | None = None  # its number in Table 1 of the PanEndoAtlas paper
    center_countries: dict[str, str] = field(default_factory=dict)

    def country_of(self, center: str | None) -> str | None:
        """The country of an image, where it is certain."""
        if center in self.center_countries:
            return self.center_countries[center]
        return self.countries[0] if len(self.countries) == 1 else None

    def instrument_of(self, regions: Iterable[str]) -> Instrument | None:
        if len(self.instruments) == 1:
            return self.instruments[0]
        scopes = {_SCOPE_OF.get(region) for region in regions}
        only = scopes.pop() if len(scopes) == 1 else None
        return only if only in self.instruments else None


@dataclass(frozen=True)
class TableOneCounts:
    """Counted in Table 1 of the paper."""

    datasets: int
    countries: int
    hospitals: int


def count_table_one(records: Iterable[About]) -> TableOneCounts:
    listed = [about for about in records if about.table1 is not None]
    hospitals = {name for about in listed for name in about.hospitals}
    return TableOneCounts(
        len(listed),
        len({name for about in listed for name in about.countries}),
        len(hospitals) + sum(about.unnamed_hospitals for about in listed),
    )


def images_by_country(rows: Iterable[tuple[About | None, str | None]]) -> dict[str, int]:
    """From each image's record and center; «several» where a dataset does not tell its countries apart."""
    counts: Counter[str] = Counter()
    for about, center in rows:
        country = None if about is None else about.country_of(center)
        counts[country or ("not stated" if about is None or not about.countries else "several")] += 1
    return dict(counts.most_common())
