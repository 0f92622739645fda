from . import (
    agreement,
    binomial,
    config,
    consensus,
    estimates,
    generalization,
    intervals,
    paired_tests,
    ranking,
    replicates,
    speed,
)

__all__ = [
    "agreement",
    "binomial",
    "config",
    "consensus",
    "estimates",
    "generalization",
    "intervals",
    "paired_tests",
    "ranking",
    "replicates",
    "speed",
]
