"""What can be scored without looking: contestants that know nothing of the image, only of the bench."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.items import Item
from panendofm.vqa.reply_kinds import Reading
from panendofm.vqa.score.accuracy.metrics import right_of
from panendofm.vqa.score.accuracy.results import ShortcutResult
from panendofm.vqa.score.sheets import QuestionSet, Sheet

# A shortcut this far above chance is flagged.
TOLERATED = 0.05

Choose = Callable[[Item], int | None]  # number of the option, or None when the shortcut has no say


def find_shortcuts(questions: QuestionSet) -> list[ShortcutResult]:
    """Accuracy of each shortcut per task: the majority answer, and the most central, largest and smallest box."""
    shortcuts = {
        "most frequent answer": _most_frequent(questions.items),
        "most central box": _by_box(_centrality),
        "largest box": _by_box(_area),
        "smallest box": _by_box(lambda box, item: -_area(box, item)),
    }
    return [row for name, choose in shortcuts.items() for row in _results(questions, f"shortcut: {name}", choose)]


def _results(questions: QuestionSet, name: str, choose: Choose) -> list[ShortcutResult]:
    sheet = Sheet(name, "shortcut")
    for item in questions.items:
        number = choose(item)
        if number is not None:
            sheet.readings[item.id] = Reading("ok", float(LETTERS[number] == item.answer), chosen=LETTERS[number])
    answered = np.array([sheet.asked(item) for item in questions.items], bool)
    tasks = np.array([item.task for item in questions.items])
    parts = {task: answered & (tasks == task) for task in sorted(set(tasks[answered].tolist()))}
    found = questions.accuracies(right_of(questions, sheet), parts)
    rows = []
    for task, own in found.items():
        low = own.chance_corrected_interval.low if own.chance_corrected_interval else None
        flagged = own.accuracy - own.chance > TOLERATED and (low is None or low > 0)
        rows.append(ShortcutResult(name, task, flagged, own))
    return rows


def _most_frequent(items: Sequence[Item]) -> Choose:
    """The option that is right most often in the question type: a text, a color, a number; at ties by its text.

    It counts the question itself too: the most that a prior can give.
    """
    counts: Counter[tuple[str, str]] = Counter((item.subtask, item.answer_text) for item in items)

    def choose(item: Item) -> int | None:
        if _coordinates(item) is not None:
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
    """The box of each option, where options are boxes or colors of boxes."""
    boxes = _coordinates(item)
    if boxes is not None:
        return boxes
    colors = {region.color: list(region.box) for region in item.regions if region.color}
    named = [colors.get(option.lower()) for option in item.options]
    return [box for box in named if box is not None] if named and None not in named else None


def _coordinates(item: Item) -> list[list[int]] | None:
    """The boxes of options such as «[12, 30, 88, 104]»."""
    boxes = [[int(v) for v in re.findall(r"-?\d+", option)] for option in item.options]
    return boxes if boxes and all(len(box) == 4 for box in boxes) else None


def _centrality(box: Sequence[int], item: Item) -> float:
    return -float(np.hypot((box[0] + box[2]) / 2 - item.width / 2, (box[1] + box[3]) / 2 - item.height / 2))


def _area(box: Sequence[int], item: Item) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))
