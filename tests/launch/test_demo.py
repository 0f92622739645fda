"""The demo's frame: steps in order as real processes, and a kind end when one fails. `make demo` runs the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.demo import Step, demo_steps, run_step
from runtime.errors import UserError


def test_a_failing_step_ends_with_its_last_words_and_its_log(tmp_path: Path) -> None:
    step = Step("draw", ("data_pipeline", "synthesise", str(tmp_path / "x")), tmp_path / "x")
    with pytest.raises(UserError) as caught:
        run_step(step, tmp_path / "log")
    text = str(caught.value)
    assert "ended with exit code 2" in text
    assert "did you mean 'synthesize'?" in text
    assert str(tmp_path / "log") in text


def test_every_step_is_a_command_that_exists(tmp_path: Path) -> None:
    """Each step's stage answers --help, so a renamed stage or verb shows here and not in the middle of a demo."""
    verbs = {
        step.words[:2] if step.words[0] in ("data_pipeline", "backbone") else step.words[:1]
        for step in demo_steps(tmp_path)
    }
    for words in sorted(verbs):
        run_step(Step("help", (*words, "--help"), tmp_path), tmp_path / "log")
        assert "usage: python -m" in (tmp_path / "log").read_text()
