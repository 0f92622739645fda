"""How well raters agree on ordinal ratings: intraclass correlation, κ, α and plain shares.

Compute these for each dimension on its own. Pooled over dimensions of different means, two raters without any agreement
get a high coefficient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Icc:
    """Shrout and Fleiss' coefficients from the mean squares of the two-way table of texts and raters."""

    msr: float  # between texts
    msc: float  # between raters
    mse: float  # the rest
    icc_1_1: float
    icc_2_1: float  # absolute agreement of single raters: the one to print
    icc_3_1: float
    icc_2_k: float
    icc_3_k: float
    icc_2_1_ci95: tuple[float, float]
    f_value: float
    p_value: float


def intraclass(ratings: ArrayLike) -> Icc:
    """ratings [texts, raters], complete."""
    table = np.asarray(ratings, np.float64)
    n, k = table.shape
    if n < 2 or k < 2:
        raise ValueError(f"ratings of at least two texts by two raters are needed, not {n} by {k}")
    mean = table.mean()
    rows = k * ((table.mean(axis=1) - mean) ** 2).sum()
    columns = n * ((table.mean(axis=0) - mean) ** 2).sum()
    total = ((table - mean) ** 2).sum()
    msr, msc = rows / (n - 1), columns / (k - 1)
    mse = (total - rows - columns) / ((n - 1) * (k - 1))
    msw = (total - rows) / (n * (k - 1))
    two = _ratio(msr - mse, msr + (k - 1) * mse + k * (msc - mse) / n)
    f_value = _ratio(msr, mse)
    return Icc(
        msr=float(msr),
        msc=float(msc),
        mse=float(mse),
        icc_1_1=_ratio(msr - msw, msr + (k - 1) * msw),
        icc_2_1=two,
        icc_3_1=_ratio(msr - mse, msr + (k - 1) * mse),
        icc_2_k=_ratio(msr - mse, msr + (msc - mse) / n),
        icc_3_k=_ratio(msr - mse, msr),
        icc_2_1_ci95=_interval(float(msr), float(msc), float(mse), n, k, two),
        f_value=f_value,
        p_value=float(stats.f.sf(f_value, n - 1, (n - 1) * (k - 1))),
    )


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below else float("nan")


def _interval(msr: float, msc: float, mse: float, n: int, k: int, rho: float) -> tuple[float, float]:
    if not np.isfinite(rho) or rho >= 1 or mse <= 0:
        return (rho, rho)
    a, b = k * rho / (n * (1 - rho)), 1 + k * rho * (n - 1) / (n * (1 - rho))
    v = (a * msc + b * mse) ** 2 / ((a * msc) ** 2 / (k - 1) + (b * mse) ** 2 / ((n - 1) * (k - 1)))
    c = k * msc + (k * n - k - n) * mse
    upper, lower = stats.f.ppf(0.975, n - 1, v), stats.f.ppf(0.975, v, n - 1)
    low = n * (msr - upper * mse) / (upper * c + n * msr)
    high = n * (lower * msr - mse) / (c + n * lower * msr)
    return float(low), float(high)


def quadratic_kappa(a: ArrayLike, b: ArrayLike) -> float:
    """Cohen's κ with weights that grow with the square of the distance."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    observed = ((first - second) ** 2).mean()
    expected = ((first[:, None] - second[None, :]) ** 2).mean()
    return float(1 - observed / expected) if expected else float("nan")


def krippendorff_ordinal(ratings: ArrayLike) -> float:
    """α of ratings [texts, raters] for ordered categories; NaN: not rated. Texts with one rating don't count."""
    table = np.asarray(ratings, np.float64)
    values = np.unique(table[~np.isnan(table)])
    place = {value: number for number, value in enumerate(values)}
    together = np.zeros((len(values), len(values)))
    for row in table:
        own = [place[value] for value in row[~np.isnan(row)]]
        if len(own) < 2:
            continue
        for i, first in enumerate(own):
            for j, second in enumerate(own):
                if i != j:
                    together[first, second] += 1 / (len(own) - 1)
    counts = together.sum(axis=1)
    distance = np.zeros_like(together)
    for c in range(len(values)):
        for k in range(c + 1, len(values)):
            distance[c, k] = distance[k, c] = (counts[c : k + 1].sum() - (counts[c] + counts[k]) / 2) ** 2
    total = counts.sum()
    expected = (np.outer(counts, counts) * distance).sum() / (total - 1)
    return float(1 - (together * distance).sum() / expected) if expected else float("nan")


@dataclass(frozen=True)
class PairAgreement:
    """One rater against another, or a judge against the experts' consensus."""

    n: int
    icc: Icc
    pearson: float
    spearman: float
    kendall_b: float
    quadratic_weighted_kappa: float
    krippendorff_ordinal: float
    exact_agreement: float
    within_one: float
    bias: float  # how much higher the first rates


def pair_agreement(a: ArrayLike, b: ArrayLike) -> PairAgreement:
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    both = np.stack([first, second], axis=1)
    constant = first.std() == 0 or second.std() == 0
    nan = float("nan")
    return PairAgreement(
        n=len(first),
        icc=intraclass(both),
        pearson=nan if constant else float(stats.pearsonr(first, second).statistic),
        spearman=nan if constant else float(stats.spearmanr(first, second).statistic),
        kendall_b=nan if constant else float(stats.kendalltau(first, second).statistic),
        quadratic_weighted_kappa=quadratic_kappa(first, second),
        krippendorff_ordinal=krippendorff_ordinal(both),
        exact_agreement=float((first == second).mean()),
        within_one=float((np.abs(first - second) <= 1).mean()),
        bias=float((first - second).mean()),
    )
