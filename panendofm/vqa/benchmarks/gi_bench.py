"""GI-Bench: five questions about an image with one lesion. Models and people answer the same ones.

A question type is one entry below: how it is asked, what an encoder learns for it, and how it is measured. Wordings
stand in the config, in its language.
"""

from __future__ import annotations

import numpy as np

from panendofm.scoring.answers.choices import published_site_f1
from panendofm.vqa.bench.lesion_builder import (
    LesionBuilder,
    LesionQuestion,
    ask_box,
    ask_diagnosis,
    ask_site,
    ask_text,
    examples_of_lesions,
    learn_box,
    learn_diagnosis,
    learn_site,
)
from panendofm.vqa.benchmark import Benchmark
from panendofm.vqa.people.rubric import HIGHEST, Contrast, Dimension, Rubric
from panendofm.vqa.published_prompts import read_prompts
from panendofm.vqa.reply_kinds import BOX, TEXT
from panendofm.vqa.score.by_question.leaderboard import QuestionLeaderboard
from panendofm.vqa.score.by_question.texts import TextCheck
from panendofm.vqa.score.metric import Items, PlainMetric, macro_accuracy, macro_f1, mean, recall
from panendofm.vqa.score.published import read_published
from panendofm.vqa.score.sheets import Sheet


def _published_f1(items: Items, letters: list[str | None]) -> float:
    site_of = {item.entity: item.answer for item in items}
    found = published_site_f1([item.entity for item in items], site_of, letters)
    return float(np.mean(list(found.values())))


def _site_f1(sheet: Sheet, items: Items) -> float:
    """The F1 of sites as it was published: right answers for other lesions of a site count as false alarms."""
    return _published_f1(items, [sheet.reading(item).chosen for item in items])


def _site_f1_ceiling(items: Items) -> float:
    return _published_f1(items, [item.answer for item in items])


_QUESTIONS = (
    LesionQuestion(
        "Q1",
        "site",
        make=ask_site,
        examples=learn_site,
        # A site is no class: its F1 is not compared class by class.
        metrics=(macro_accuracy("q1", "Q1 site"), macro_f1("q1_region_macro_f1", "Q1 F1", by_class=False)),
        plain_metrics=(PlainMetric("q1_f1_published", "Q1 F1 as published", _site_f1, _site_f1_ceiling),),
    ),
    LesionQuestion(
        "Q2",
        "box",
        BOX,
        for_people="Draw a box around the lesion.",
        make=ask_box,
        examples=learn_box,
        metrics=(
            mean("q2", "Q2 mIoU"),
            recall("q2_recall_0_5", "R@0.5", 0.5),
            recall("q2_recall_0_75", "R@0.75", 0.75),
        ),
    ),
    LesionQuestion(
        "Q3",
        "diagnosis",
        make=ask_diagnosis,
        examples=learn_diagnosis,
        metrics=(macro_accuracy("q3", "Q3 diagnosis"), macro_f1("q3_macro_f1", "Q3 F1")),
    ),
    LesionQuestion("Q4", "findings", TEXT, make=ask_text, metrics=(mean("q4", "Q4 findings", HIGHEST),)),
    LesionQuestion("Q5", "advice", TEXT, make=ask_text, metrics=(mean("q5", "Q5 advice", HIGHEST),)),
)

_DIMENSIONS = (
    Dimension(
        "language",
        "language and readability",
        ("hard to follow, lay or wrong terms", "clear, with some slips", "terse and natural, as in good records"),
    ),
    Dimension(
        "evidence",
        "use of visible evidence and coverage",
        (
            "next to nothing visible is used, or it is made up",
            "some key features, others missing or shallow",
            "site, shape, color, surface, edge and signs, all exact",
        ),
    ),
    Dimension(
        "accuracy",
        "factual and clinical correctness",
        (
            "wrong site or nature, contradicts the image",
            "right as a whole, deviations change nothing",
            "agrees with the reference throughout and adds nothing unfounded",
        ),
        needs_reference=True,
    ),
    Dimension(
        "actionability",
        "actionability and agreement with guidelines",
        (
            "no advice, or odd advice",
            "usable, details missing",
            "specific, ranked, graded by risk, in the guideline's direction",
        ),
    ),
    Dimension(
        "safety",
        "safety",
        (
            "plainly unsafe, a high risk is overlooked",
            "mostly safe, borderline items",
            "uncertainty and risk come first, warnings are given",
        ),
    ),
)

# The paper's main finding: models write better than they see.
_FLUENCY_GAP = Contrast(
    "fluency_gap",
    "language − accuracy",
    of="language",
    less="accuracy",
    meaning="how much better a text reads than it is right, the fluency–accuracy paradox",
)

# Counted, not graded: 0 none, 1 one, 2 several.
_OVER_INTERPRETATION = Rubric(
    (
        Dimension(
            "wrong_lesion",
            "lesions that are not there",
            ("names no other lesion", "names one as present", "names several as present"),
            needs_reference=True,
        ),
        Dimension(
            "invented",
            "invented findings",
            (
                "every finding can be seen",
                "one finding, such as a vessel or a texture, is not in the image",
                "several findings are not in the image",
            ),
        ),
        Dimension(
            "beyond",
            "advice beyond the question",
            (
                "says what was asked",
                "one measure or claim that nothing in the case calls for",
                "a list of such measures",
            ),
        ),
    ),
    low=0,
    high=2,
)

BENCHMARK = Benchmark(
    name="gi_bench",
    title="GI-Bench",
    questions=_QUESTIONS,
    builder=LesionBuilder,
    examples=examples_of_lesions,
    leaderboard=QuestionLeaderboard(
        rank_by="q3", chain=("Q1", "Q2", "Q3"), text_check=TextCheck(text="Q4", site="Q1", diagnosis="Q3")
    ),
    published=read_published("gi_bench"),
    prompts={"en": read_prompts("gi_bench_en"), "zh": read_prompts("gi_bench_zh")},
    rubric=Rubric(_DIMENSIONS, (_FLUENCY_GAP,)),
    more_rubrics={"over_interpretation": _OVER_INTERPRETATION},
)
