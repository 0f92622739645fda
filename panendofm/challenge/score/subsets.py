"""Parts of the test set in results.json: subgroups with their metrics, and where a system does well and badly."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.scoring.statistics.estimates import Estimate

Estimates = dict[str, Estimate]


@dataclass(frozen=True)
class Subgroup:
    """A part of the test set: a device, a hospital, a sex, an age band, an organ, a size, a class.

    `image_score` is the mean over its images of how well each was answered: right or wrong, F1 of its boxes, Dice.
    Differences are to all images, those of metrics to all images of the classes that the part has.
    """

    kind: str
    name: str
    images: int
    groups: int
    small: bool  # too few groups for a finding of its own
    image_score: Estimate
    image_score_difference: Estimate
    metrics: Estimates  # none for a class
    differences: Estimates

    @property
    def title(self) -> str:
        return f"{self.kind}: {self.name}"

    @property
    def differs(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        low, high = self.image_score_difference.low, self.image_score_difference.high
        return low is not None and high is not None and (low > 0 or high < 0)


@dataclass(frozen=True)
class Case:
    """One image. `image` is a thumbnail of it with truth and answer drawn in, below the folder of results."""

    file: str
    frame: int
    score: float
    caption: str
    image: str | None = None


@dataclass(frozen=True)
class Subset:
    """A subgroup that is answered better or worse than all images, with its best or worst images."""

    subgroup: Subgroup
    cases: list[Case]
