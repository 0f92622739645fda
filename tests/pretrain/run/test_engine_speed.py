"""The figures of a run's speed: an evaluation between two logged steps distorts none of them."""

from __future__ import annotations

import time

import pytest

from panendofm.runtime.config import load_config
from pretrain.config import PretrainConfig
from pretrain.run.speed import Clock


def test_an_evaluation_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    words = ["run.dir=x", "data.shards=y", "batch.images=32", "batch.microgroup_images=16"]
    clock = Clock(0, load_config(PretrainConfig, None, words), world_size=1)
    now += 8.0  # eight steps of a second
    with clock.paused():
        now += 1000.0
    now += 2.0  # two more
    figures = clock.speed_at(10, waited=1.0)
    assert figures["step_seconds"] == pytest.approx(1.0)
    assert figures["images_per_second"] == pytest.approx(32.0)
    assert figures["data_wait_share"] == pytest.approx(0.1)
    now += 5.0
    assert clock.speed_at(20, waited=2.0)["data_wait_share"] == pytest.approx(0.2)
