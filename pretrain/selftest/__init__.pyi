from .golden import golden_step_errors
from .pictures import write_pictures
from .training import RunFigures, Training, differences, sharding_config, train

__all__ = [
    "RunFigures",
    "Training",
    "differences",
    "golden_step_errors",
    "sharding_config",
    "train",
    "write_pictures",
]
