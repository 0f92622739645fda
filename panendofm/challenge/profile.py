"""What a challenge is here: a declaration. Each file of `profiles/` declares one, as its tuple PROFILES.

    PROFILES = (
        MaskProfile(
            name="gastro2027", about="mean Dice, a correct «nothing» is 0",
            empties=EmptyRules(correct_nothing=0), score=lambda means: means["dice"],
        ),
    )

Files, scores, pages and rankings know a profile by this declaration alone; nobody asks for its name. Metrics are
computed from arrays whose first row is the whole test set and whose other rows are bootstrap replicates, so a function
that works row by row gives the value and its confidence interval.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import ClassVar, TypeVar

from panendofm.challenge.files.finding_model import TaskKind
from panendofm.challenge.matched_boxes import MatchedBoxes
from panendofm.challenge.placed_points import PlacedPoints
from panendofm.challenge.published import PublishedTable
from panendofm.runtime.errors import UserError
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.detection.average_precision import BoxRules
from panendofm.scoring.masks import EmptyRules

Metrics = dict[str, Floats]  # each [1 + R]: the whole test set, then the replicates


@dataclass(frozen=True, kw_only=True)
class Profile:
    kind: ClassVar[TaskKind]
    name: str
    about: str
    ranking: tuple[str, ...]  # the metrics of a ranking; the first decides
    template: str  # of the page of a scored submission
    published: tuple[PublishedTable, ...] = ()
    default: bool = False  # counts when nobody names a profile
    classes: tuple[str, ...] = ()  # of a challenge that has its own; else those of the truth


@dataclass(frozen=True, kw_only=True)
class LabelProfile(Profile):
    """One label an image."""

    kind: ClassVar[TaskKind] = "classification"
    metrics: Callable[[Floats], Metrics]  # of confusion matrices [1 + R, C, C]
    counts_are_means: bool = False  # printed counts are means over classes, else sums
    ranking: tuple[str, ...] = ("mcc", "recall", "specificity")
    template: str = "labels.html"


@dataclass(frozen=True, kw_only=True)
class BoxProfile(Profile):
    """Boxes in images or in the frames of videos."""

    kind: ClassVar[TaskKind] = "detection"
    rules: BoxRules
    metrics: Callable[[MatchedBoxes], Metrics]
    template: str = "boxes.html"


@dataclass(frozen=True, kw_only=True)
class MaskProfile(Profile):
    """Masks. `score` makes the number that ranks from the means over images (dice, iou, hausdorff …) of a class."""

    kind: ClassVar[TaskKind] = "segmentation"
    empties: EmptyRules
    score: Callable[[Metrics], Floats]
    ranking: tuple[str, ...] = ("score",)
    template: str = "masks.html"


@dataclass(frozen=True, kw_only=True)
class PointProfile(Profile):
    """Points in the masks of findings."""

    kind: ClassVar[TaskKind] = "localization"
    metrics: Callable[[PlacedPoints], Metrics]
    template: str = "points.html"


P = TypeVar("P", bound=Profile)


@cache
def registered_profiles() -> dict[tuple[TaskKind, str], Profile]:
    """By kind and name: one challenge may have labels and masks. A caller may add to them."""
    from panendofm.challenge import profiles  # its files import this one

    found: dict[tuple[TaskKind, str], Profile] = {}
    for module in pkgutil.iter_modules(profiles.__path__):
        for profile in import_module(f"{profiles.__name__}.{module.name}").PROFILES:
            found[profile.kind, profile.name] = profile
    return found


def profiles_of(kind: type[P]) -> dict[str, P]:
    return {profile.name: profile for profile in registered_profiles().values() if isinstance(profile, kind)}


def find_profile(kind: type[P], name: str | None) -> P:
    """By its name, or the default of its kind."""
    own = profiles_of(kind)
    if name is None:
        return next(profile for profile in own.values() if profile.default)
    if name not in own:
        raise UserError(f"profile={name} is none of {kind.kind}'s; there are: {', '.join(own)}.")
    return own[name]
