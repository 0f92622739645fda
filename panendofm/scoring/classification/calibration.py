"""Temperature scaling: one number, fitted on validation, that makes probabilities mean what they say."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from panendofm.scoring.classification.metrics import Floats, Targets

# The range that is searched; a fit at its end means that validation can't tell.
_LOG_RANGE = (np.log(0.02), np.log(50.0))


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + e^-x) without overflow."""
    result: Floats = 0.5 * (1.0 + np.tanh(0.5 * logits))
    return result


def cross_entropy(targets: Targets, logits: Floats) -> float:
    """Mean binary cross-entropy, in the form that never takes the logarithm of 0."""
    return float(np.mean(np.logaddexp(0.0, logits) - targets * logits))


def fit_temperature(targets: Targets, logits: Floats) -> float:
    """The T that minimizes the binary cross-entropy of logits / T; 1 when there is nothing to fit."""
    if not targets.size:
        return 1.0
    # In log T the problem is one bounded valley: cross-entropy is convex in 1 / T.
    best = minimize_scalar(
        lambda log_t: cross_entropy(targets, logits / np.exp(log_t)), bounds=_LOG_RANGE, method="bounded"
    )
    return float(np.exp(best.x))
