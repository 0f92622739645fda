from .all_ranks import Rehearsal, rehearse
from .fake_run import HostCost, RankRehearsal
from .watcher import Collective, RehearsalError

__all__ = ["Collective", "HostCost", "RankRehearsal", "Rehearsal", "RehearsalError", "rehearse"]
