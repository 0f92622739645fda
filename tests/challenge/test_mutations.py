"""Valid files, damaged two thousand times: a sentence or the same score, never a traceback or another score in silence.

A mutation is allowed to change the score only where it wrote a different valid answer: a label, or a box's number. The
test therefore states independently what a file says, by the plainest possible reading, and compares.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.files.frames import read_pair
from panendofm.challenge.files.submissions import read_answers, read_truth
from panendofm.challenge.profile import BoxProfile, find_profile
from panendofm.challenge.score.boxes import score_boxes
from panendofm.challenge.score.labels import score_labels
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig

CLASSES = ["polyps", "normal-cecum", "esophagitis"]
NO_DRAWS = ScoreConfig(truth="", bootstrap=BootstrapConfig(replicates=0))
SIGNS = ',;"\n\r\t .-0189eEnaN_|é\x00\ufeff'


def accident(text: str, dice: random.Random) -> str:
    lines, at = text.split("\n"), dice.randrange(max(len(text), 1))
    line, sign = dice.randrange(len(lines)), dice.choice(SIGNS)
    return dice.choice(
        [
            text[:at] + text[at + 1 :],
            text[:at] + sign + text[at:],
            text[:at] + sign + text[at + 1 :],
            "\n".join(lines[:line] + lines[line + 1 :]),
            "\n".join([*lines[:line], lines[line], *lines[line:]]),
            "\n".join(dice.sample(lines, len(lines))),
            text[:at],
            text.replace(",", dice.choice([";", ", ", ",,", " "]), dice.choice([1, -1])),
            text.replace("\n", "\r\n"),
            text.upper(),
            text.replace("0.", ".", 1),
            text.replace(dice.choice(CLASSES), dice.choice(CLASSES), 1),
        ]
    )


def mutate(text: str, dice: random.Random) -> str:
    """One to three small accidents."""
    for _ in range(dice.randint(1, 3)):
        text = accident(text, dice)
    return text


def plain_labels(text: str) -> dict[str, str] | None:
    """What a submission says, read by splitting alone; None where a person would not call it a valid file."""
    said: dict[str, str] = {}
    lines = [
        line
        for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if line.strip()
    ]
    for i, line in enumerate(lines):
        cells = [cell.strip().strip('"').strip() for cell in line.split(",")]
        if i == 0 and cells[0].lower() == "file":
            continue
        name = cells[0].replace("\\", "/").rsplit("/", 1)[-1]
        name = name.rsplit(".", 1)[0] if "." in name[1:] else name
        if name in said or len(cells) not in (3, 4):
            return None
        said[name] = cells[1]
    return said


def test_damaged_submissions(tmp_path: Path) -> None:
    dice = random.Random(7)
    truth_path, path = tmp_path / "truth.csv", tmp_path / "sub.csv"
    names = [f"p{i}" for i in range(12)]
    labels = {name: CLASSES[i % 3] for i, name in enumerate(names)}
    truth_path.write_text("\n".join(f"{name}.jpg,{label}" for name, label in labels.items()) + "\n")
    truth = read_truth(truth_path)
    bodies = [
        "\n".join(f"{n}.jpg,{dice.choice(CLASSES)},0.{dice.randint(10, 99)}" for n in names) + "\n",
        "\n".join(f"{n}.jpg, {dice.choice(CLASSES)}, 0.5, 12.{i}" for i, n in enumerate(names)) + "\n",
        "file,category,confidence,time_ms\n" + "\n".join(f"{n}.jpg,{labels[n]},0.9,8.{i}" for i, n in enumerate(names)),
    ]
    refused = scored = 0
    for _ in range(1300):
        text = mutate(dice.choice(bodies), dice)
        path.write_bytes(text.encode())
        try:
            answers = read_answers(path, truth, time_unit="ms")
            found = score_labels(truth, answers, NO_DRAWS)
        except UserError as error:
            message = str(error)
            assert str(path) in message and "\n" not in message, message
            refused += 1
            continue
        scored += 1
        said = plain_labels(text)
        assert said is not None and set(said) == set(labels), text
        right = sum(said[name] == label for name, label in labels.items())
        assert found.profiles["biomedia2019"].metrics["recall"].value == right / 12, text
        assert found.n == 12
    assert refused > 400 and scored > 100


def plain_boxes(text: str) -> dict[tuple[str, int], int] | None:
    """Boxes a frame, by splitting alone."""
    said: dict[tuple[str, int], int] = {}
    lines = [
        line
        for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if line.strip()
    ]
    for line in lines[1:]:
        cells = [cell.strip().strip('"').strip() for cell in line.split(",")]
        if len(cells) != 8:
            return None
        name = cells[0].rsplit(".", 1)[0] if "." in cells[0][1:] else cells[0]
        key = (name, int(float(cells[1] or 0)))
        said[key] = said.get(key, 0) + bool(cells[2])
    return said


def test_damaged_detections(tmp_path: Path) -> None:
    dice = random.Random(11)
    truth_path, path = tmp_path / "truth.csv", tmp_path / "told.csv"
    head = "file,frame,category,x,y,w,h,width,height\n"
    truth_path.write_text(
        head
        + "".join(f"p{i}.png,0,{CLASSES[i % 2]},10,{i},30,30,100,100\n" for i in range(8))
        + "q.png,0,,,,,,100,100\n"
    )
    coco = find_profile(BoxProfile, "coco")
    keys = {(f"p{i}", 0) for i in range(8)} | {("q", 0)}
    body = "file,frame,category,confidence,x,y,w,h\n" + "".join(
        f"p{i}.png,0,{CLASSES[i % 2]},0.{i + 1},11,{i},30,29\np{i}.png,0,{CLASSES[1]},0.05,50,50,9,9\n"
        for i in range(8)
    )
    body += "q.png,0,,,,,,\n"
    refused = scored = 0
    for _ in range(700):
        text = mutate(body, dice)
        path.write_bytes(text.encode())
        try:
            found = score_boxes(read_pair(truth_path, path, "detection"), coco, NO_DRAWS)
        except UserError as error:
            message = str(error)
            assert str(path) in message and "\n" not in message, message
            refused += 1
            continue
        scored += 1
        said = plain_boxes(text)
        assert said is not None and set(said) == keys, text
        assert sum(said.values()) == sum(found.boxes.values()), text
        value = found.profiles["coco"].metrics["map"].value
        assert value is not None and np.isfinite(value)
    assert refused > 200 and scored > 50
