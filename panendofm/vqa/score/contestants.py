"""Who takes part: runs of models, and the readers of a folder of exams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.client.answers import read_answer_set, unique_names
from panendofm.vqa.people.readers import read_people
from panendofm.vqa.score.config import ScoreConfig
from panendofm.vqa.score.sheets import Contestant, read_contestant


def read_contestants(bench: Bench, answers: Sequence[Path], config: ScoreConfig) -> list[Contestant]:
    """Models first, then readers, whose names are their codes."""
    sets = unique_names([read_answer_set(path, bench, config.allow_partial) for path in answers])
    found = [read_contestant(bench, own, config.parser) for own in sets]
    if config.people:
        for group, own in read_people(Path(config.people), bench, config.allow_partial):
            found.append(read_contestant(bench, own, config.parser, group))
    names = [contestant.name for contestant in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"two contestants are called {twice[0]}; give one another api.name.")
    return found
