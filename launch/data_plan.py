"""The plans of sharding and of curation as tables by number of frames, with what becomes the bottleneck."""

from __future__ import annotations

from data_pipeline import (
    ClusteringConfig,
    Conditions,
    CurationCost,
    FeatureNetwork,
    ShardingCost,
    cost_of,
    curation_cost_of,
    frames_of_hours,
    measured_flops_per_second,
    measured_seconds_a_frame,
)
from panendofm.runtime.console import duration, say, table
from pretrain import PretrainConfig, feature_flops

_DECADES = range(4, 9)  # 10^4 … 10^8 frames
_SHARDING = ["frames", "video", "screening", "shuffle", "in all"]
_SHARDING += ["shards", "disk at most", "driver", "index a node", "bottleneck"]
_CURATION = ["frames", "features", "clusters", "in all", "features on disk", "memory", "bottleneck"]


def print_data_plan(video_hours: float, given: Conditions) -> None:
    """What the shards of so many hours of video cost, beside powers of ten."""
    seconds = measured_seconds_a_frame(given.frames_per_second)
    asked = frames_of_hours(video_hours, given)
    costs = [cost_of(count, seconds, given) for count in _counts(asked)]
    say(
        f"sharding on {given.cores} cores, {given.frames_per_second:g} frames of a second of video, "
        f"{given.kept_share:.0%} of them kept, {given.guarded_images:,} guarded images: "
        f"{1e3 * seconds:.0f} ms of a core per frame (720p, measured here), {given.disk_gb_per_second:g} GB/s of disk"
    )
    table(f"{video_hours:,g} hours of video are about {asked:,} frames", _SHARDING, [_row(cost) for cost in costs])
    say(f"Each worker holds up to {costs[0].worker_gb:.1f} GB.")


def print_curation_plan(video_hours: float, given: Conditions, trained: PretrainConfig) -> None:
    """What it costs to curate these frames by the features of a network such as the one that is trained."""
    vit, side = trained.model.vit(), trained.augment.global_px
    network = FeatureNetwork(feature_flops(vit, side), vit.width)
    flops, config = measured_flops_per_second(), ClusteringConfig()
    counts = _counts(frames_of_hours(video_hours, given))
    costs = [curation_cost_of(count, network, flops, given, config) for count in counts]
    say(
        f"curation on {given.cores} cores, {given.driver_cores} of them on the machine that clusters: features of "
        f"{trained.model.name} at {side} px, {network.flops / 1e9:.1f} GFLOP and {network.width} values a frame; a "
        f"core does {flops / 1e9:.0f} GFLOP/s (measured here)"
    )
    table("curation", _CURATION, [_curation_row(cost) for cost in costs])


def _counts(asked: int) -> list[int]:
    return sorted({*(10**power for power in _DECADES), asked})


def _curation_row(cost: CurationCost) -> list[str]:
    return [
        f"{cost.frames:,}",
        *(duration(3600 * hours) for hours in (cost.features_hours, cost.clusters_hours, cost.hours)),
        *(f"{size:,.1f} GB" for size in (cost.disk_gb, cost.memory_gb)),
        cost.bottleneck,
    ]


def _row(cost: ShardingCost) -> list[str]:
    shuffle = max(cost.shuffle_hours, cost.disk_hours)
    return [
        f"{cost.frames:,}",
        f"{cost.video_hours:,.0f} h",
        *(duration(3600 * hours) for hours in (cost.screening_hours, shuffle, cost.hours)),
        *(f"{size:,.1f} GB" for size in (cost.shards_gb, cost.peak_disk_gb, cost.driver_gb, cost.index_gb)),
        cost.bottleneck,
    ]
