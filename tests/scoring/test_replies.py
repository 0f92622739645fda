"""What free replies choose: the golden cases, and traps around them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from panendofm.scoring.answers.replies import read_choice, read_first_letter

ORGANS = ["Esophagus", "Large intestine", "Stomach", "Small intestine"]


def test_golden_cases(golden: Path) -> None:
    cases = json.loads((golden / "metrics_endobench.json").read_text(encoding="utf-8"))["extraction"]
    assert len(cases) == 36
    for case in cases:
        read = read_choice(case["response"], list(case["options"].values()))
        assert (read.status, read.letter, read.rule) == (case["status"], case["letter"], case["rule"]), case


def test_replies_judged_by_hand(golden: Path) -> None:
    """No option is credited that a reader would not take for chosen; at most 3% of what a reader sees is lost."""
    table = json.loads((golden / "replies.json").read_text(encoding="utf-8"))
    assert len(table["cases"]) >= 300
    wrong, lost = [], []
    for case in table["cases"]:
        letter = read_choice(case["reply"], table["option_sets"][case["options"]]).letter
        if letter != case["judged"]:
            (lost if letter is None else wrong).append(case["reply"])
    assert not wrong
    assert len(lost) <= 0.03 * sum(case["judged"] is not None for case in table["cases"]), lost


_REPEATED = (
    "answer is ", "(", "[", "{", '{"a":', "correct ", "不", "也", "选", "A, ", "A or ", "if i had to ", "not ",
    "\\text{", "A\n", "'", "the final ", "It is not A. ", "is the most ", "I can't help ", "(1,", "[1 ", "x1: 1 ", "1.",
    " ", "\n",
)  # fmt: skip
_READ_ALL = """
import resource, sys
from panendofm.scoring.answers.box_replies import read_boxes
from panendofm.scoring.answers.replies import read_choice
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
for unit in {units!r}:
    read_choice(unit * 10_000, ["Yes", "No"])
    read_boxes(unit * 10_000, (640, 480))
"""


def test_time_grows_with_length_and_no_faster() -> None:
    """10,000 times the same words: quadratic reading would need minutes, and the limit on CPU time ends it."""
    subprocess.run([sys.executable, "-c", _READ_ALL.format(units=_REPEATED)], check=True)


@pytest.mark.parametrize(
    ("reply", "status", "letter"),
    [
        ("The answer is not B.", "unparsed", None),
        ("The answer is a polyp.", "unparsed", None),
        ("Answer: A polyp is seen.", "unparsed", None),
        ("The answer is A. Stomach", "ambiguous", None),
        ("A or B", "ambiguous", None),
        ("I would say C, not B.", "ok", "C"),
        ("Option A is wrong. Option B is right.", "ok", "B"),
        ("The answer is A. No, wait: the final answer is D.", "ok", "D"),
        ("A. Esophagus\nB. Large intestine\nC. Stomach\n\nAnswer: C", "ok", "C"),
        ("(B) Large intestine, because of the haustra", "ok", "B"),
        ("Final answer: small intestine", "ok", "D"),
        ("The final answer is $\\boxed{\\text{B}}$.", "ok", "B"),
        ("<think>A? No.</think>\nB", "ok", "B"),
        ("答案是B。", "ok", "B"),
        ("Ｂ", "ok", "B"),
        ("The answer is F.", "invalid_option", None),
        ("I am unable to provide a diagnosis.", "refused", None),
        ("   \n", "empty", None),
        ('{"answer": null}', "unparsed", None),
        ("{broken json", "unparsed", None),
    ],
)
def test_traps(reply: str, status: str, letter: str | None) -> None:
    read = read_choice(reply, ORGANS)
    assert (read.status, read.letter) == (status, letter)


def test_a_reply_that_was_cut_off_is_read_only_where_its_end_does_not_matter() -> None:
    reasoning = "Let us look closely. The large intestine"
    assert read_choice(reasoning, ORGANS).status == "ok"
    assert read_choice(reasoning, ORGANS, finished=False).status == "truncated"
    assert read_choice("B. Large inte", ORGANS, finished=False).letter == "B"


def test_letters_beyond_four_and_the_word_i() -> None:
    names = [f"lesion {n}" for n in range(21)]
    assert read_choice("I think it is U", names).letter == "U"
    assert read_choice("I", names).letter == "I"
    assert read_choice("V", names).status == "invalid_option"


def test_first_letter_is_lenient() -> None:
    assert read_first_letter("A smooth tube, so B", ORGANS).letter == "A"
    assert read_first_letter("nothing", ORGANS).status == "unparsed"
