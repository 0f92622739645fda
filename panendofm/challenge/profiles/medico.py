"""Medico 2017 and 2018 and BioMedia 2019: one label an image, with the rows that their report printed."""

from __future__ import annotations

from pathlib import Path

from panendofm.challenge.profile import LabelProfile, Metrics
from panendofm.challenge.published import read_published
from panendofm.scoring.classification.averages import METRICS, macro, mean_with_zeros, micro, pooled_mcc, square_mcc
from panendofm.scoring.classification.rates import Floats

_PUBLISHED = read_published(Path(__file__).with_suffix(".yaml"))


def _medico2017(confusion: Floats) -> Metrics:
    return {**micro(confusion), "mcc": pooled_mcc(confusion)}


def medico2018(confusion: Floats) -> Metrics:
    means = macro(confusion, mean_with_zeros)
    # The report's accuracy is that of all classes together, and its MCC the multi-class one.
    chosen = {**means, "accuracy": micro(confusion)["accuracy"], "mcc": square_mcc(confusion)}
    return {name: chosen[name] for name in METRICS}


def _biomedia2019(confusion: Floats) -> Metrics:
    return {**micro(confusion), "mcc": square_mcc(confusion)}


PROFILES = (
    LabelProfile(
        name="medico2017",
        about="micro averages, MCC pooled over classes",
        metrics=_medico2017,
        published=_PUBLISHED.tables_of("medico2017"),
    ),
    LabelProfile(
        name="medico2018",
        about="macro averages, undefined as 0, multi-class MCC",
        metrics=medico2018,
        counts_are_means=True,
        published=_PUBLISHED.tables_of("medico2018"),
        default=True,
    ),
    LabelProfile(
        name="biomedia2019",
        about="micro averages, multi-class MCC",
        metrics=_biomedia2019,
        published=_PUBLISHED.tables_of("biomedia2019"),
    ),
)
# The report's last table, over all years.
CLINICAL_ROWS = _PUBLISHED.clinical
