from . import averages, calibration, confusion, metrics, rates, risk_coverage

__all__ = [
    "averages",
    "calibration",
    "confusion",
    "metrics",
    "rates",
    "risk_coverage",
]
