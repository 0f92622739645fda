"""Medico 2017 and 2018 and BioMedia 2019: one label an image, with the rows that their report printed."""

from __future__ import annotations

from panendofm.challenge.profile import LabelProfile, Metrics
from panendofm.challenge.published import read_published
from panendofm.scoring.classification.averages import macro, mean_with_zeros, micro, pooled_mcc, square_mcc
from panendofm.scoring.classification.rates import Floats

_PUBLISHED = read_published("medico.yaml")


def _medico2017(confusion: Floats) -> Metrics:
    return {**micro(confusion), "mcc": pooled_mcc(confusion)}


def medico2018(confusion: Floats) -> Metrics:
    means = macro(confusion, mean_with_zeros)
    return {
        **{name: means[name] for name in ("recall", "precision", "f1", "specificity")},
        "accuracy": micro(confusion)["accuracy"],
        "mcc": square_mcc(confusion),
    }


def _biomedia2019(confusion: Floats) -> Metrics:
    return {**micro(confusion), "mcc": square_mcc(confusion)}


PROFILES = (
    LabelProfile(
        "medico2017",
        "micro averages, MCC pooled over classes",
        _medico2017,
        published=_PUBLISHED.tables_of("medico2017"),
    ),
    LabelProfile(
        "medico2018",
        "macro averages, undefined as 0, multi-class MCC",
        medico2018,
        counts_are_means=True,
        published=_PUBLISHED.tables_of("medico2018"),
        default=True,
    ),
    LabelProfile(
        "biomedia2019",
        "micro averages, multi-class MCC",
        _biomedia2019,
        published=_PUBLISHED.tables_of("biomedia2019"),
    ),
)
# The report's last table, over all years.
CLINICAL_ROWS = _PUBLISHED.clinical
