from .golden import golden_step_errors
from .images import write_images
from .training import RunMetrics, Training, differences, sharding_config, train

__all__ = [
    "RunMetrics",
    "Training",
    "differences",
    "golden_step_errors",
    "sharding_config",
    "train",
    "write_images",
]
