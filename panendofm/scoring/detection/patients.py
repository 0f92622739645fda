"""Metrics over patients: detection rates and miss rates of polyps and adenomas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panendofm.scoring.classification.rates import Floats, ratio

ADENOMA = "adenoma"


@dataclass(frozen=True)
class Lesion:
    histology: str | None
    found: bool  # by a true detection


@dataclass(frozen=True)
class Patient:
    lesions: tuple[Lesion, ...]
    false_alarm: bool  # some box hits nothing


def patient_metrics(patients: Sequence[Patient], weights: Floats | None = None) -> dict[str, Floats | None]:
    """PDR and ADR by truth, by true detections and by any box, and miss rates; under weights [R, N], each is [R].

    ADR needs the histology of every lesion; None means not evaluable. A patient with nothing but false alarms counts
    as detected by `any_box`: that is why the three stand side by side.
    """
    w = np.ones((1, len(patients))) if weights is None else weights
    everyone = w.sum(axis=1)

    def of_patients(flags: list[bool]) -> Floats:
        return ratio(w @ np.array(flags, np.float64), everyone)

    def missed(wanted: str | None) -> Floats:
        chosen = [[x for x in p.lesions if wanted is None or x.histology == wanted] for p in patients]
        total = np.array([len(x) for x in chosen], np.float64)
        lost = np.array([sum(not lesion.found for lesion in x) for x in chosen], np.float64)
        return ratio(w @ lost, w @ total)

    known = all(lesion.histology for p in patients for lesion in p.lesions)
    adenomas = [[x for x in p.lesions if x.histology == ADENOMA] for p in patients]
    result: dict[str, Floats | None] = {
        "pdr_truth": of_patients([bool(p.lesions) for p in patients]),
        "pdr_found": of_patients([any(x.found for x in p.lesions) for p in patients]),
        "pdr_any_box": of_patients([any(x.found for x in p.lesions) or p.false_alarm for p in patients]),
        "adr_truth": of_patients([bool(x) for x in adenomas]) if known else None,
        "adr_found": of_patients([any(a.found for a in x) for x in adenomas]) if known else None,
        "polyp_miss_rate": missed(None),
        "adenoma_miss_rate": missed(ADENOMA) if known else None,
    }
    if weights is not None:
        return result
    return {name: None if value is None else value[0] for name, value in result.items()}
