"""The demo's frame: keys that exist, and a kind end when a step fails. `make demo` runs the real steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_pipeline.config import PipelineConfig
from eval_knn import EvalConfig
from launch.demo import Step, demo_steps, run_step
from linear_probe.dense.config import DenseConfig
from pretrain import PretrainConfig
from runtime.config import load_config
from runtime.errors import UserError
from vqa.bench.config import BuildConfig
from vqa.score.config import ContestantConfig


def test_a_failing_step_ends_with_its_last_words_and_its_log(tmp_path: Path) -> None:
    step = Step("draw", ("data_pipeline", "synthesise", str(tmp_path / "x")), tmp_path / "x")
    with pytest.raises(UserError) as caught:
        run_step(step, tmp_path / "log")
    text = str(caught.value)
    assert "ended with exit code 2" in text
    assert "did you mean 'synthesize'?" in text
    assert str(tmp_path / "log") in text


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
