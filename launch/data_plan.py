"""The plan of sharding as a table by number of frames, with what becomes the bottleneck."""

from __future__ import annotations

from data_pipeline import Conditions, ShardingCost, cost_of, frames_of_hours, measured_seconds_a_frame
from runtime.console import duration, say, table

_DECADES = range(4, 9)  # 10^4 … 10^8 frames
_COLUMNS = ["frames", "video", "screening", "shuffle", "in all"]
_COLUMNS += ["shards", "disk at most", "driver", "index a node", "bottleneck"]


def print_data_plan(video_hours: float, given: Conditions) -> None:
    """What the shards of so many hours of video cost, beside powers of ten."""
    seconds = measured_seconds_a_frame(given.frames_per_second)
    asked = frames_of_hours(video_hours, given)
    counts = sorted({*(10**power for power in _DECADES), asked})
    costs = [cost_of(count, seconds, given) for count in counts]
    say(
        f"sharding on {given.cores} cores, {given.frames_per_second:g} frames of a second of video, "
        f"{given.kept_share:.0%} of them kept, {given.guarded_images:,} guarded images: "
        f"{1e3 * seconds:.0f} ms of a core per frame (720p, measured here), {given.disk_gb_per_second:g} GB/s of disk"
    )
    table(f"{video_hours:,g} hours of video are about {asked:,} frames", _COLUMNS, [_row(cost) for cost in costs])
    say(f"Each worker holds up to {costs[0].worker_gb:.1f} GB; curation is not planned yet.")


def _row(cost: ShardingCost) -> list[str]:
    shuffle = max(cost.shuffle_hours, cost.disk_hours)
    return [
        f"{cost.frames:,}",
        f"{cost.video_hours:,.0f} h",
        *(duration(3600 * hours) for hours in (cost.screening_hours, shuffle, cost.hours)),
        *(f"{size:,.1f} GB" for size in (cost.shards_gb, cost.peak_disk_gb, cost.driver_gb, cost.index_gb)),
        cost.bottleneck,
    ]
