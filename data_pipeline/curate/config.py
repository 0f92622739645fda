"""The keys of `python -m data_pipeline curate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from data_pipeline.config import RayConfig
from data_pipeline.curate.balance import BalanceConfig
from data_pipeline.curate.clustering import ClusteringConfig
from data_pipeline.curate.duplicates import NearDuplicatesConfig
from records.curation import CurationFolder
from runtime.config import option


@dataclass
class CurateConfig:
    """From a shard set to weights of its frames."""

    network: str = option("The network whose features are clustered, any word that names one.", "efficientnet-lite0")
    gpus_per_task: float = option(
        "Share of a GPU for the features of a shard, such as 1 or 0.5; 0 uses cores.", 0.0, low=0, high=1
    )
    out: str | None = option("Folder for the curation; null: the shards' name with -curation.", None)
    seed: int = option("Another seed gives other clusters.", 0, low=0)
    clustering: ClusteringConfig = field(default_factory=ClusteringConfig)
    near_duplicates: NearDuplicatesConfig = field(default_factory=NearDuplicatesConfig)
    balance: BalanceConfig = field(default_factory=BalanceConfig)
    ray: RayConfig = field(default_factory=RayConfig)

    def folder(self, shards: Path) -> CurationFolder:
        shards = shards.absolute()
        return CurationFolder(Path(self.out) if self.out is not None else shards.with_name(shards.name + "-curation"))
