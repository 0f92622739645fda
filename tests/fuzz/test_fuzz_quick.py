"""A few hundred damaged inputs of every reader, always the same ones; `make fuzz MINUTES=30` tries new ones."""

from __future__ import annotations

from pathlib import Path

from fuzz import BAD, fuzz


def test_damaged_inputs_are_refused_in_a_sentence_or_read_as_they_were(tmp_path: Path) -> None:
    counts, bad = fuzz(tmp_path, seed=0, minutes=None, cases=1200)
    assert not bad, "\n\n".join(bad[:3])
    assert all(own["refused"] for own in counts.values()), "every reader refuses something"
    assert not any(own[kind] for own in counts.values() for kind in BAD)
