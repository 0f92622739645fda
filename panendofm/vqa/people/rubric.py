"""By what texts are rated: dimensions, each from 1 to 5 with words for 1, 3 and 5."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.errors import UserError

LOWEST, HIGHEST = 1, 5
Values = dict[str, int | None]  # by dimension; None: the rater could not say


@dataclass(frozen=True)
class Dimension:
    name: str
    title: str
    anchors: tuple[str, str, str]  # what 1, 3 and 5 mean
    needs_reference: bool = False


TOTAL = "total"


@dataclass(frozen=True)
class Contrast:
    """One dimension less another one of the same text."""

    name: str
    title: str
    of: str
    less: str
    meaning: str = ""


@dataclass(frozen=True)
class Rubric:
    dimensions: tuple[Dimension, ...] = ()
    contrasts: tuple[Contrast, ...] = ()

    @property
    def names(self) -> list[str]:
        return [dimension.name for dimension in self.dimensions]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and titles of what tables show: the dimensions, their mean, the contrasts."""
        shown = [(dimension.name, dimension.name) for dimension in self.dimensions]
        return [*shown, (TOTAL, TOTAL), *((contrast.name, contrast.title) for contrast in self.contrasts)]

    def without_reference(self) -> Rubric:
        return Rubric(tuple(dimension for dimension in self.dimensions if not dimension.needs_reference))

    def check(self, values: object, where: str) -> Values:
        """Whole numbers from 1 to 5; null where a rater could not say."""
        if not isinstance(values, dict):
            raise UserError(f"{where}: a rating is an object with {', '.join(self.names)}.")
        result: Values = {}
        for name in self.names:
            value = values.get(name, "missing")
            if value is None:
                result[name] = None
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not LOWEST <= value <= HIGHEST:
                raise UserError(f"{where}: {name} must be a whole number from {LOWEST} to {HIGHEST}, not {value!r}.")
            result[name] = value
        return result
