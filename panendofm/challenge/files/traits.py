"""What a truth says of an image beside its finding: device, hospital, patient, organ. Subgroups are made of it.

The columns are the benchmark's own "non-annotating information", which the log of annotations has too.
"""

from __future__ import annotations

from collections.abc import Sequence

from panendofm.challenge.files.text_table import Row

TRAIT_COLUMNS = ("device", "hospital", "sex", "age", "ethnicity", "organ")
SIZE_COLUMN = "size_mm"
_OLDEST = 120.0

Trait = tuple[str, str]  # kind and name


def row_traits(row: Row) -> tuple[Trait, ...]:
    """Of the columns that are filled; an age must be a number of years."""
    if row.text("age"):
        age = row.number("age", "the age")
        if not 0 <= age <= _OLDEST:
            raise row.fail(f"the age {row.text('age')} lies outside 0 to {_OLDEST:g}; give years.")
    return tuple((name, row.text(name)) for name in TRAIT_COLUMNS if row.text(name))


def row_size_mm(row: Row) -> float | None:
    if not row.text(SIZE_COLUMN):
        return None
    size = row.number(SIZE_COLUMN, "the size")
    if size <= 0:
        raise row.fail(f"the size {row.text(SIZE_COLUMN)} mm is not above 0; correct it or leave it empty.")
    return size


def band_of(value: float, limits: Sequence[float], unit: str = "") -> str:
    """«under 50», «50 to under 60», «80 and over»: a limit belongs to the band above it."""
    below = [limit for limit in limits if limit <= value]
    above = [limit for limit in limits if limit > value]
    after = f" {unit}" if unit else ""
    if not below:
        return f"under {above[0]:g}{after}"
    if not above:
        return f"{below[-1]:g}{after} and over"
    return f"{below[-1]:g} to under {above[0]:g}{after}"
