from . import answers, classification, detection, features, masks, statistics

__all__ = [
    "answers",
    "classification",
    "detection",
    "features",
    "masks",
    "statistics",
]
