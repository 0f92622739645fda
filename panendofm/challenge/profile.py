"""What a challenge is here: a declaration. Each file of `profiles/` declares one, as its tuple PROFILES.

    PROFILES = (
        MaskProfile("gastro2027", "mean Dice, a correct «nothing» is 0", EmptyRules(correct_nothing=0), _mean_dice),
    )

Files, scores, pages and rankings know a profile by this declaration alone; nobody asks for its name. Metrics are
computed from arrays whose first row is the whole test set and whose other rows are bootstrap replicates, so a function
that works row by row gives the value and its confidence interval.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import ClassVar, Literal, TypeVar

from panendofm.challenge.published import PublishedTable
from panendofm.runtime.errors import UserError
from panendofm.scoring.classification.averages import one_against_rest, summed
from panendofm.scoring.classification.rates import Counts, Floats
from panendofm.scoring.detection.average_precision import BoxRules
from panendofm.scoring.masks import EmptyRules

Kind = Literal["classification", "detection", "segmentation"]
Metrics = dict[str, Floats]  # each [1 + R]: the whole test set, then the replicates


class MatchedBoxes(ABC):
    """What a profile of boxes computes its metrics from: detections matched to true boxes by its rules."""

    @abstractmethod
    def mean_ap(self, *thresholds: float) -> Floats:
        """Mean over classes with true boxes, and over these IoU thresholds (all of the rules without any)."""

    @abstractmethod
    def mean_ap_of_areas(self, above: float, up_to: float) -> Floats:
        """The same for boxes of these areas in square pixels."""

    @abstractmethod
    def mean_iou(self) -> Floats:
        """Mean overlap of all detections at all thresholds, false ones as 0."""

    @abstractmethod
    def mean_iou_of_true_positives(self, threshold: float) -> Floats:
        """Of those that found a box; without replicates."""


@dataclass(frozen=True)
class Profile:
    name: str
    about: str
    kind: ClassVar[Kind]


@dataclass(frozen=True)
class LabelProfile(Profile):
    """One label an image."""

    kind: ClassVar[Kind] = "classification"
    metrics: Callable[[Floats], Metrics]  # of confusion matrices [1 + R, C, C]
    counts_are_means: bool = False  # printed counts are means over classes, else sums
    ranking: tuple[str, ...] = ("mcc", "recall", "specificity")  # metrics of a ranking; the first decides
    published: tuple[PublishedTable, ...] = ()
    template: str = "labels.html"
    default: bool = False  # which one counts when nobody names a profile

    def counts(self, confusion: Floats) -> Counts:
        counts = summed(one_against_rest(confusion))
        if not self.counts_are_means:
            return counts
        classes = confusion.shape[-2]
        return Counts(*(part / classes for part in (counts.tp, counts.fp, counts.fn, counts.tn)))


@dataclass(frozen=True)
class BoxProfile(Profile):
    """Boxes in images or in the frames of videos."""

    kind: ClassVar[Kind] = "detection"
    rules: BoxRules
    metrics: Callable[[MatchedBoxes], Metrics]
    ranking: tuple[str, ...]
    published: tuple[PublishedTable, ...] = ()
    template: str = "boxes.html"
    default: bool = False


@dataclass(frozen=True)
class MaskProfile(Profile):
    """Masks. `score` makes the number that ranks from the means over images (dice, iou, hausdorff …) of a class."""

    kind: ClassVar[Kind] = "segmentation"
    empties: EmptyRules
    score: Callable[[Metrics], Floats]
    ranking: tuple[str, ...] = ("score",)
    published: tuple[PublishedTable, ...] = ()
    template: str = "masks.html"
    default: bool = False


AnyProfile = LabelProfile | BoxProfile | MaskProfile
P = TypeVar("P", LabelProfile, BoxProfile, MaskProfile)


@cache
def registered_profiles() -> dict[tuple[Kind, str], AnyProfile]:
    """By kind and name: one challenge may have labels and masks. A caller may add to them."""
    from panendofm.challenge import profiles

    found: dict[tuple[Kind, str], AnyProfile] = {}
    for module in pkgutil.iter_modules(profiles.__path__):
        for profile in import_module(f"{profiles.__name__}.{module.name}").PROFILES:
            found[profile.kind, profile.name] = profile
    return found


def profiles_of(kind: type[P]) -> dict[str, P]:
    return {name: profile for (_, name), profile in registered_profiles().items() if isinstance(profile, kind)}


def find_profile(kind: type[P], name: str | None) -> P:
    """By its name, or the default of its kind."""
    own = profiles_of(kind)
    if name is None:
        return next(profile for profile in own.values() if profile.default)
    if name not in own:
        raise UserError(f"profile={name} is none of {kind.kind}'s; there are: {', '.join(own)}.")
    return own[name]
