"""The demo gives its stages keys that they have. `make demo` runs the real steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_pipeline.config import PipelineConfig
from eval_knn import EvalConfig
from launch.demo import demo_steps
from linear_probe.dense.config import DenseConfig
from pretrain import PretrainConfig
from runtime.config import load_config
from vqa.bench.config import BuildConfig
from vqa.score.config import ContestantConfig


@pytest.mark.parametrize(
    ("stage", "schema"),
    [
        ("shard", PipelineConfig),
        ("pretrain", PretrainConfig),
        ("eval_knn", EvalConfig),
        ("dense", DenseConfig),
        ("build", BuildConfig),
        ("encoder", ContestantConfig),
    ],
)
def test_the_demo_gives_its_stages_keys_that_they_have(
    stage: str, schema: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [step for step in demo_steps(tmp_path) if stage in step.words]
    assert len(steps) == 1
    words = steps[0].words
    files = [word for word in words if word.endswith(".yaml")]
    overrides = [word for word in words if "=" in word and not word.startswith("--")]
    assert overrides
    load_config(schema, files[0] if files else None, overrides)
