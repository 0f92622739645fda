from .config import CorpusConfig, PipelineConfig
from .cost import Conditions, ShardingCost, cost_of, frames_of_hours, measured_seconds_a_frame
from .curate.config import ClusteringConfig
from .curate.cost import CurationCost, FeatureNetwork, curation_cost_of, measured_flops_per_second
from .output.verification import verify
from .planning import plan
from .reporting.page import report
from .run import shard

__all__ = [
    "ClusteringConfig",
    "Conditions",
    "CorpusConfig",
    "CurationCost",
    "FeatureNetwork",
    "PipelineConfig",
    "ShardingCost",
    "cost_of",
    "curation_cost_of",
    "frames_of_hours",
    "measured_flops_per_second",
    "measured_seconds_a_frame",
    "plan",
    "report",
    "shard",
    "verify",
]
