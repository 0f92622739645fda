"""By what texts are rated: dimensions, usually from 1 to 5, with words for the ends and the middle."""

from __future__ import annotations

from dataclasses import dataclass, replace

from panendofm.runtime.errors import UserError

LOWEST, HIGHEST = 1, 5
Values = dict[str, int | None]  # by dimension; None: the rater could not say


@dataclass(frozen=True)
class Dimension:
    name: str
    title: str
    anchors: tuple[str, str, str]  # what the lowest, the middle and the highest rating mean
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
    low: int = LOWEST
    high: int = HIGHEST

    @property
    def names(self) -> list[str]:
        return [dimension.name for dimension in self.dimensions]

    @property
    def anchored(self) -> tuple[int, int, int]:
        """The ratings that have words."""
        return self.low, (self.low + self.high) // 2, self.high

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and titles of what tables show: the dimensions, their mean, the contrasts."""
        shown = [(dimension.name, dimension.name) for dimension in self.dimensions]
        return [*shown, (TOTAL, TOTAL), *((contrast.name, contrast.title) for contrast in self.contrasts)]

    def without_reference(self) -> Rubric:
        return replace(self, dimensions=tuple(own for own in self.dimensions if not own.needs_reference))

    def check(self, values: object, where: str) -> Values:
        """Whole numbers of the scale; null where a rater could not say."""
        if not isinstance(values, dict):
            raise UserError(f"{where}: a rating is an object with {', '.join(self.names)}.")
        result: Values = {}
        for name in self.names:
            value = values.get(name, "missing")
            if value is None:
                result[name] = None
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
                raise UserError(
                    f"{where}: {name} must be a whole number from {self.low} to {self.high}, not {value!r}."
                )
            result[name] = value
        return result
