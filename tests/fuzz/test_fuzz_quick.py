"""A few hundred damaged inputs of every reader, always the same ones; `make fuzz MINUTES=30` tries new ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import BAD, fuzz

TESTS = Path(__file__).resolve().parent.parent


def test_damaged_inputs_are_refused_in_a_sentence_or_read_as_they_were(tmp_path: Path) -> None:
    counts, bad = fuzz(tmp_path, seed=0, minutes=None, cases=1200)
    assert not bad, "\n\n".join(bad[:3])
    assert all(own["refused"] for own in counts.values()), "every reader refuses something"
    assert not any(own[kind] for own in counts.values() for kind in BAD)


@pytest.mark.parametrize("script", ["fuzz/fuzz.py", "soak/soak.py"])
def test_the_command_starts(script: str) -> None:
    """As `make fuzz` and `make soak` call them: without pytest's search path."""
    done = subprocess.run([sys.executable, str(TESTS / script), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
