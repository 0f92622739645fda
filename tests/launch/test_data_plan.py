"""The plan of sharding: a table whose figures follow from its rates, and what becomes the bottleneck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from data_pipeline import (
    ClusteringConfig,
    Conditions,
    FeatureNetwork,
    cost_of,
    curation_cost_of,
    frames_of_hours,
    measured_flops_per_second,
)
from data_pipeline.cost import DRIVER_BYTES, FRAME_BYTES, TEXT_SECONDS_A_VIDEO
from data_pipeline.curate.cost import NETWORK_EFFICIENCY, clustering_flops
from launch.data_plan import print_curation_plan, print_data_plan
from panendofm.runtime.config import load_config
from pretrain import PretrainConfig

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


def test_curation_follows_from_the_rates() -> None:
    network, config = FeatureNetwork(80e9, 1024), ClusteringConfig()
    given = replace(GIVEN, driver_cores=16)
    small, large, huge = (curation_cost_of(count, network, 80e9, given, config) for count in (10**6, 10**7, 10**8))
    assert small.features_hours == pytest.approx(10**6 * (1 / NETWORK_EFFICIENCY + 0.005) / 64 / 3600)
    assert large.features_hours == pytest.approx(10 * small.features_hours)
    assert large.disk_gb == pytest.approx(10**7 * 4096 / 1e9)
    assert small.bottleneck == large.bottleneck == "cores (features)"
    # The sample is the same from a million frames on: memory grows by what is kept of a frame.
    assert large.memory_gb - small.memory_gb == pytest.approx(0.1 * (huge.memory_gb - large.memory_gb))
    assert huge.memory_gb < huge.disk_gb / 10
    assert curation_cost_of(10**8, network, 80e9, replace(given, memory_gb=16), config).bottleneck.startswith("memory")
    quick = curation_cost_of(10**7, FeatureNetwork(0.4e9, 1280), 80e9, given, config)
    assert quick.bottleneck == "one machine's cores (clusters)"


def test_the_work_of_clustering_grows_with_frames_and_clusters() -> None:
    config = ClusteringConfig()
    counts = [clustering_flops(frames, 256, config) for frames in (10**5, 10**6, 10**7, 10**8)]
    assert counts[1] / counts[0] == pytest.approx(100, rel=0.01)  # ten times the frames, and the clusters
    assert counts[3] - counts[2] == pytest.approx(2 * 256 * 1e5 * 9e7)  # only every frame's cluster is more


def test_curation_has_a_table_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1e9 < measured_flops_per_second() < 1e12
    config = load_config(PretrainConfig, None, ["run.dir=a", "data.shards=b", "model.name=vit_large_patch14"])
    print_curation_plan(500, GIVEN, config)
    said = capsys.readouterr().out
    assert "features of vit_large_patch14 at 224 px" in said
    assert "162.0 GFLOP and 1024 values a frame" in said
    for count in ("10,000", "900,000", "100,000,000"):
        assert count in said
