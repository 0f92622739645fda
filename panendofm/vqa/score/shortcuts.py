"""What can be scored without looking: contestants that know nothing of the picture, only of the bench."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from panendofm.scoring.answers.choices import accuracies_by
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.prompts import Variant
from panendofm.vqa.score.metrics import Frame, accuracy_dict, right_of
from panendofm.vqa.score.verdicts import Sheet, Verdict

# A shortcut this far above chance is flagged.
TOLERATED = 0.05

Choose = Callable[[Item], int | None]  # number of the option, or None when the shortcut has no say


def shortcut_sheets(items: Sequence[Item]) -> list[Sheet]:
    """The majority answer, and for boxes the most central and the largest one and the most frequent colour."""
    return [
        _sheet("shortcut: most frequent answer", items, _most_frequent(items)),
        _sheet("shortcut: most central box", items, _by_box(_centrality)),
        _sheet("shortcut: largest box", items, _by_box(_area)),
        _sheet("shortcut: smallest box", items, _by_box(lambda box, item: -_area(box, item))),
    ]


def _sheet(name: str, items: Sequence[Item], choose: Choose) -> Sheet:
    verdicts = {}
    for item in items:
        number = choose(item)
        if number is not None:
            letter = LETTERS[number]
            verdicts[(item.id, Variant())] = Verdict("ok", letter, letter, name, letter == item.answer)
    return Sheet(name, verdicts, "direct")


def _most_frequent(items: Sequence[Item]) -> Choose:
    """The option that is right most often in the sub-task: a text, a colour, a number; at ties by its text.

    It counts the question itself too: the most that a prior can give.
    """
    counts: Counter[tuple[str, str]] = Counter((item.subtask, item.answer_text) for item in items)

    def choose(item: Item) -> int | None:
        if item.subtask == "VG":
            return None  # no two questions share a box
        keys = [(-counts[(item.subtask, option)], option) for option in item.options]
        return keys.index(min(keys))

    return choose


def _by_box(score: Callable[[Sequence[int], Item], float]) -> Choose:
    def choose(item: Item) -> int | None:
        boxes = option_boxes(item)
        return None if boxes is None else int(np.argmax([score(box, item) for box in boxes]))

    return choose


def option_boxes(item: Item) -> list[list[int]] | None:
    """The box of each option, where options are boxes or colours of boxes."""
    if item.subtask == "VG":
        boxes = [[int(v) for v in re.findall(r"-?\d+", option)] for option in item.options]
        return boxes if all(len(box) == 4 for box in boxes) else None
    colours = {region.color: list(region.box) for region in item.regions if region.color}
    if item.subtask == "RS" and all(option.lower() in colours for option in item.options):
        return [colours[option.lower()] for option in item.options]
    return None


def _centrality(box: Sequence[int], item: Item) -> float:
    return -float(np.hypot((box[0] + box[2]) / 2 - item.width / 2, (box[1] + box[3]) / 2 - item.height / 2))


def _area(box: Sequence[int], item: Item) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def check_shortcuts(frame: Frame, sheets: Sequence[Sheet]) -> list[dict[str, Any]]:
    """Accuracy of each shortcut per task; flagged when it is certainly above what is tolerated."""
    rows = []
    for sheet in sheets:
        answered = np.array([(item.id, Variant()) in sheet.verdicts for item in frame.items])
        tasks = np.array([item.task for item in frame.items])
        parts = {t: answered & (tasks == t) for t in sorted(set(tasks[answered].tolist()))}
        right = right_of(frame, sheet)
        for task, figures in accuracies_by(right, frame.n_options, parts, frame.weights).items():
            above = figures.accuracy - figures.chance
            low = figures.corrected_interval[0] if figures.corrected_interval else None
            flagged = above > TOLERATED and (low is None or low > 0)
            rows.append({"shortcut": sheet.name, "task": task, "flagged": flagged, **accuracy_dict(figures)})
    return rows
