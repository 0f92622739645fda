"""Public endoscopy corpora to clean, de-identified, leak-checked WebDataset shards.

    from data_pipeline import PipelineConfig, load_config, plan, shard, verify, report

    config = load_config(PipelineConfig, "configs/corpora/panendo.yaml", ["out=/data/shards"])
    shard(config)

The functions are imported when they are first used: the command line answers `--help` at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from data_pipeline.config import CorpusConfig, PipelineConfig
    from data_pipeline.cost import Conditions, ShardingCost, cost_of, frames_of_hours, measured_seconds_a_frame
    from data_pipeline.curate.clustering import ClusteringConfig
    from data_pipeline.curate.cost import CurationCost, FeatureNetwork, curation_cost_of, measured_flops_per_second
    from data_pipeline.planning import plan
    from data_pipeline.reporting import report
    from data_pipeline.run import shard
    from data_pipeline.verification import verify
    from runtime.config import load_config

_HOMES = {
    "CorpusConfig": "data_pipeline.config",
    "PipelineConfig": "data_pipeline.config",
    "load_config": "runtime.config",
    "ClusteringConfig": "data_pipeline.curate.clustering",
    "Conditions": "data_pipeline.cost",
    "CurationCost": "data_pipeline.curate.cost",
    "FeatureNetwork": "data_pipeline.curate.cost",
    "ShardingCost": "data_pipeline.cost",
    "cost_of": "data_pipeline.cost",
    "curation_cost_of": "data_pipeline.curate.cost",
    "frames_of_hours": "data_pipeline.cost",
    "measured_flops_per_second": "data_pipeline.curate.cost",
    "measured_seconds_a_frame": "data_pipeline.cost",
    "plan": "data_pipeline.planning",
    "shard": "data_pipeline.run",
    "verify": "data_pipeline.verification",
    "report": "data_pipeline.reporting",
}

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
    "load_config",
    "measured_flops_per_second",
    "measured_seconds_a_frame",
    "plan",
    "report",
    "shard",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'data_pipeline' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
