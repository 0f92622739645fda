"""The plan of sharding: a table whose figures follow from its rates, and what becomes the bottleneck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from data_pipeline import Conditions, cost_of, frames_of_hours
from data_pipeline.cost import DRIVER_BYTES, FRAME_BYTES, TEXT_SECONDS_A_VIDEO
from launch.data_plan import print_data_plan

GIVEN = Conditions(
    cores=64, memory_gb=64, disk_gb_per_second=1.0, kept_share=0.5, frames_per_second=1.0, video_minutes=20
)


def test_figures_follow_from_the_rates() -> None:
    cost = cost_of(1_000_000, 0.1, GIVEN)
    assert cost.video_hours == pytest.approx(2_000_000 / 3600)
    text = 2_000_000 / 1200 * TEXT_SECONDS_A_VIDEO
    assert cost.screening_hours == pytest.approx((2_000_000 * 0.1 + text) / 64 / 3600)
    assert cost.peak_disk_gb == pytest.approx(3 * cost.shards_gb) == pytest.approx(3e6 * FRAME_BYTES / 1e9)
    assert cost.driver_gb == pytest.approx(0.1 + 1e6 * DRIVER_BYTES / 1e9)
    assert frames_of_hours(cost.video_hours, GIVEN) == 1_000_000
    assert cost.hours == pytest.approx(cost.screening_hours + max(cost.shuffle_hours, cost.disk_hours))


def test_what_becomes_the_bottleneck() -> None:
    assert cost_of(10**6, 0.1, GIVEN).bottleneck == "cores (screening)"
    assert cost_of(10**6, 0.1, replace(GIVEN, disk_gb_per_second=0.01)).bottleneck == "disk (shuffle)"
    assert cost_of(10**8, 0.1, replace(GIVEN, memory_gb=16)).bottleneck == "the driver's memory (32 GB)"
    few, many = (cost_of(10**6, 0.1, replace(GIVEN, guarded_images=n)) for n in (8_000, 400_000))
    assert 1 < many.screening_hours / few.screening_hours < 400_000 / 8_000  # the index searches less than all


def test_the_table_has_the_hours_that_were_asked_for_among_powers_of_ten(capsys: pytest.CaptureFixture[str]) -> None:
    print_data_plan(500, GIVEN)
    said = capsys.readouterr().out
    assert "500 hours of video are about 900,000 frames" in said
    rows = [line.split()[0] for line in said.splitlines() if " h " in line and line.strip()[0].isdigit()]
    found = [word for line in said.splitlines() for word in line.split() if word.replace(",", "").isdigit()]
    for count in ("10,000", "100,000", "900,000", "1,000,000", "10,000,000", "100,000,000"):
        assert count in found, rows
    assert "ms of a core per frame (720p, measured here)" in said
