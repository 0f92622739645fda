"""Metrics that need no labels: how much of its feature space does a network use?

RankMe (Garrido et al. 2023): the effective number of dimensions, exp of the entropy of the normalized singular values.
1 for features that have collapsed to a line, at most min(N, D). Higher is better among checkpoints of one run.

alpha-ReQ (Agrawal et al. 2022): the exponent a of the eigenvalues' decay, lambda_i ~ i^-a, of the centered covariance.
Values near 1 go with good features; much larger means few dimensions carry all, much smaller means noise.

The common share: how much of the features' length is a vector that they all have in common. Near 1 all cosines are near
1 too, and what tells images apart is in their last digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# alpha-ReQ's line is fitted over these ranks of the spectrum: the first few hold the classes, the tail holds noise.
_FIRST_RANK, _LAST_RANK = 5, 100
_BLOCK_ROWS = 8192


def rankme(features: NDArray[np.floating]) -> float:
    """Effective rank of features [N, D]."""
    singular = np.sqrt(_eigenvalues(features, centered=False))
    if singular.sum() == 0:
        return 0.0
    share = singular / singular.sum()
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


def alpha_req(features: NDArray[np.floating]) -> float | None:
    """Exponent of the spectrum's decay; None when the spectrum is too short to fit a line."""
    spectrum = _eigenvalues(features, centered=True)
    spectrum = spectrum[spectrum > spectrum.max(initial=0) * 1e-10]
    ranks = np.arange(1, len(spectrum) + 1)
    used = (ranks >= min(_FIRST_RANK, len(ranks) // 2)) & (ranks <= _LAST_RANK)
    if used.sum() < 3:
        return None
    # Weighted by 1/rank, or the many points of the tail would decide alone on a logarithmic axis.
    weights = np.sqrt(1 / ranks[used])
    slope, _ = np.polyfit(np.log(ranks[used]), np.log(spectrum[used]), 1, w=weights)
    return float(-slope)


def common_share(features: NDArray[np.floating]) -> float:
    """Length of the mean of features [N, D] over their mean length: 0 for features around zero, 1 for equal ones."""
    lengths, total = 0.0, np.zeros(features.shape[1])
    for start in range(0, len(features), _BLOCK_ROWS):
        block = features[start : start + _BLOCK_ROWS].astype(np.float64)
        lengths += float(np.linalg.norm(block, axis=1).sum())
        total += block.sum(axis=0)
    return float(np.linalg.norm(total)) / lengths if lengths else 0.0


def _eigenvalues(features: NDArray[np.floating], centered: bool) -> NDArray[np.float64]:
    """Eigenvalues of X'X in falling order, from the smaller of X'X [D, D] and XX' [N, N], which share them."""
    rows, width = features.shape
    mean = features.mean(axis=0, dtype=np.float64) if centered and rows else np.zeros(width)
    if rows <= width:
        wide = features.astype(np.float64) - mean
        product = wide @ wide.T
    else:
        product = np.zeros((width, width))
        for start in range(0, rows, _BLOCK_ROWS):
            block = features[start : start + _BLOCK_ROWS].astype(np.float64) - mean
            product += block.T @ block
    values = np.asarray(np.linalg.eigvalsh(product)[::-1], np.float64)
    # Rounding leaves tiny values, also negative ones, where the true eigenvalue is 0.
    return np.where(values > values.max(initial=0) * 1e-13, values, 0.0)
