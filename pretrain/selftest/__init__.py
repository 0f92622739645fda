"""What a machine is asked before it trains: `launch doctor` judges the answers. Public, like the package itself."""

from pretrain.parallel.world import World, joined_world, place_of_process
from pretrain.selftest.golden import golden_step_errors
from pretrain.selftest.pictures import write_pictures
from pretrain.selftest.training import RunFigures, Training, differences, sharding_config, train

__all__ = [
    "RunFigures",
    "Training",
    "World",
    "differences",
    "golden_step_errors",
    "joined_world",
    "place_of_process",
    "sharding_config",
    "train",
    "write_pictures",
]
