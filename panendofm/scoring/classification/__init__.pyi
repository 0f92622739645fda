from . import calibration, confusion, metrics, profiles, rates, risk_coverage

__all__ = [
    "calibration",
    "confusion",
    "metrics",
    "profiles",
    "rates",
    "risk_coverage",
]
