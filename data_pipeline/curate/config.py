"""The keys of `python -m data_pipeline curate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from data_pipeline.config import RayConfig
from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError

if TYPE_CHECKING:
    from panendofm.records.curation import CurationFolder

# Centroids that the coarsest level joins, at most: all distances among them are in memory.
_MOST_JOINED_CENTROIDS = 4000


@dataclass
class NearDuplicatesConfig:
    """Frames that show what another one shows."""

    remove: bool = option("Give all near-duplicates but one the weight 0.", True)
    precision: float = option("Wanted share of right matches among those above the threshold.", 0.99, above=0, high=1)
    seconds: float = option("Frames of one video that lie at most so far apart show the same.", 2.0, above=0)
    lowest_similarity: float = option("Frames of less cosine similarity are never duplicates.", 0.9, low=0, high=1)


@dataclass
class ClusteringConfig:
    """Hierarchical k-means."""

    finest: int = option("Clusters of the finest level; 0: one per 30 frames, at most 100,000.", 0, low=0)
    shrink: int = option("Each level has so many times fewer clusters than the one before.", 8, low=2)
    coarsest_most: int = option("Most clusters of the coarsest level; the data decides how many it has.", 64, low=2)
    iterations: int = option("Iterations of k-means.", 20, low=1)
    resamplings: int = option("How often a level is clustered again on points next to its centroids.", 3, low=0)
    resampled_points: int = option("Points next to each centroid that take part in it.", 4, low=1)
    sample_frames: int = option(
        "Frames on which k-means is trained, at most: they are in memory. All frames are assigned.", 1_000_000, low=2
    )

    def levels(self, frames: int) -> list[int]:
        """Numbers of clusters, the finest first; of the last level it is an upper bound."""
        finest = self.finest or min(max(frames // 30, 2), 100_000)
        counts = [max(1, min(finest, frames))]
        while counts[-1] > _MOST_JOINED_CENTROIDS:
            counts.append(counts[-1] // self.shrink)
        return [*counts, self.coarsest_most]


@dataclass
class BalanceConfig:
    """From clusters to weights."""

    most_uses: float = option(
        "A frame is seen at most so often an epoch, on the average: a cluster of a few odd frames must not fill "
        "training. What is cut off goes to the others.",
        16.0,
        low=1,
    )


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
        # Here, because it loads pyarrow, which `--help` does without.
        from panendofm.records.curation import CurationFolder

        return CurationFolder(Path(self.out) if self.out is not None else shards.with_name(shards.name + "-curation"))


@dataclass
class LookupConfig:
    """From a few images to the frames that are most like them."""

    out: str = option("The list to write, a .csv; its page lies beside it.", "similar.csv", was="to")
    most: int = option("Frames to find.", 100, low=1)
    curation: str | None = option("Folder of the curation; null: the shards' name with -curation.", None)

    def check(self) -> None:
        if Path(self.out).suffix != ".csv":
            raise UserError(f"out={self.out}: the name of the list must end in .csv.")
