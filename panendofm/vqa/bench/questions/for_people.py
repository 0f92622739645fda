"""Which questions of a bench people answer too: about equally many of each type, drawn by hash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.bench.questions.select import water_filling

STEP = 5  # a type gets 5, 10, 15, … questions


def mark_for_people(items: Sequence[Item], total: int, most: int, seed: int) -> list[Item]:
    """The same questions, `total` of them marked for people; none that speaks of coordinates."""
    if total % STEP or most % STEP:
        raise UserError(f"human_questions and human_most_per_type are multiples of {STEP}; round them.")
    by_type: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if not item.speaks_of_coordinates:
            by_type[item.subtask].append(item)
    steps = {code: len(by_type[code]) // STEP for code in sorted(by_type)}
    shares = water_filling(steps, most // STEP, total // STEP)
    human: set[str] = set()
    groups: set[str] = set()
    for code, share in shares.items():
        human |= _drawn(by_type[code], share * STEP, groups, seed)
    if len(human) < total:
        warn(
            f"human_questions: {len(human)} of {total} questions for people; build more questions "
            f"(cap, questions_per_subtask), or raise human_most_per_type ({most})."
        )
    return [replace(item, human=item.id in human) for item in items]


def _drawn(items: Sequence[Item], count: int, groups: set[str], seed: int) -> set[str]:
    """By hash; a patient, video or near-duplicate is asked about again only after all others."""
    order = sorted(items, key=lambda item: (keyed(seed, "people", item.id), item.id))
    first: list[Item] = []
    again: list[Item] = []
    for item in order:
        (again if item.group in groups else first).append(item)
        groups.add(item.group)
    chosen = [*first, *again][:count]
    return {item.id for item in chosen}
