"""EndoBench: twelve tasks of multiple-choice questions about anatomy, lesions, surgery and regions.

A question type is one entry below: where its entities come from, how its options are made, and how it is worded. A
wording must not name the answer, the dataset or the kind of examination; which one is asked is decided by a hash.
"""

from __future__ import annotations

from collections.abc import Sequence

from panendofm.vqa.bench.entity_builder import EntityBuilder
from panendofm.vqa.bench.questions.candidates import (
    COUNTS,
    YES_NO,
    Candidate,
    by_annotation,
    by_label,
    histology,
    instrument_count,
    instrument_presence,
    lesion,
    organ,
    polyp_count,
    preparation,
    severity,
    single_finding,
)
from panendofm.vqa.bench.questions.options import DISTRACTORS, Alike, Pools, grades_of
from panendofm.vqa.bench.questions.types import ChoiceQuestion, RegionQuestion, examples_of_entities
from panendofm.vqa.benchmark import Benchmark, QuestionType
from panendofm.vqa.published_prompts import read_prompts
from panendofm.vqa.score.accuracy.leaderboard import AccuracyLeaderboard
from panendofm.vqa.score.published import read_published

_GRADES = ("MAYO-0", "MAYO-0-1", "MAYO-1", "MAYO-1-2", "MAYO-2", "MAYO-2-3", "MAYO-3")
_PREPARATION = ("BBPS-0-1", "BBPS-2-3")


def _grades(candidate: Candidate, pools: Pools) -> Sequence[str]:
    """Those that occur."""
    return [grade for grade in _GRADES if grade in pools.entities(candidate.pool)]


def _numbers_around(candidate: Candidate, pools: Pools) -> Sequence[str]:
    first = max(0, int(candidate.entity) - 2)
    return [str(number) for number in range(first, first + DISTRACTORS + 1)]


_QUESTIONS: tuple[QuestionType, ...] = (
    ChoiceQuestion(
        "LI",
        "landmark",
        category="anatomy",
        find=by_label(single_finding("anatomical-landmarks")),
        wordings=(
            "Which anatomical landmark does this image show?",
            "What landmark of the digestive tract is in view here?",
            "Name the landmark that can be recognized in the image.",
            "The view contains one anatomical landmark. Which one is it?",
            "Which of these landmarks is the endoscope looking at?",
        ),
    ),
    ChoiceQuestion(
        "OI",
        "organ",
        category="anatomy",
        find=by_label(organ),
        alike=(Alike(),),  # the scene would tell the organ
        wordings=(
            "In which organ was this image taken?",
            "Which part of the digestive tract is shown?",
            "To which organ does the mucosa in this image belong?",
            "Where in the digestive tract is the camera?",
            "Which organ is the camera in?",
        ),
    ),
    ChoiceQuestion(
        "LQ",
        "number of polyps",
        natural_order=True,
        find=by_label(polyp_count),
        options=lambda candidate, pools: COUNTS,
        wordings=(
            "How many polyps can be seen in the image?",
            "Count the polyps in this view. How many are there?",
            "What is the number of polyps that are visible?",
            "How many separate polyps does the image contain?",
            "Give the number of polyps in this image.",
        ),
    ),
    ChoiceQuestion(
        "LC",
        "lesion class",
        task="LT",
        find=by_label(lesion),
        wordings=(
            "Which finding does this image show?",
            "What is the most fitting description of the mucosa seen here?",
            "Which of the following is visible in the image?",
            "What would you report for this view?",
            "Which diagnosis agrees best with the image?",
        ),
    ),
    ChoiceQuestion(
        "PT",
        "polyp histology",
        task="LT",
        find=by_label(histology),
        true=grades_of,
        wordings=(
            "What is the histological type of the polyp in the image?",
            "Which type would the pathologist most likely report for this polyp?",
            "To which histological class does the lesion belong?",
            "Judging by its surface, which kind of polyp is this?",
            "Which histology fits the lesion that is shown?",
        ),
    ),
    ChoiceQuestion(
        "LS",
        "severity",
        natural_order=True,
        find=by_label(severity),
        options=_grades,
        wordings=(
            "Which grade of inflammation does the image show?",
            "How severe is the colitis in this view?",
            "Grade the inflammation of the mucosa that is shown.",
            "Which Mayo grade fits this image best?",
            "What is the endoscopic severity of the disease here?",
        ),
    ),
    ChoiceQuestion(
        "PA",
        "bowel preparation",
        category="surgery",
        natural_order=True,
        find=by_label(preparation),
        options=lambda candidate, pools: _PREPARATION,
        wordings=(
            "How clean is the bowel in this image?",
            "Which preparation score fits this view?",
            "Rate the quality of bowel preparation.",
            "Which score describes the cleanliness of the mucosa here?",
            "How well was the bowel prepared?",
        ),
    ),
    ChoiceQuestion(
        "SP",
        "phase of the operation",
        task="MP",
        category="surgery",
        find=by_annotation(lambda annotation: annotation.phase),
        wordings=(
            "Which phase of the operation is shown?",
            "In which phase was this image taken?",
            "What phase is the procedure in?",
            "Name the phase of the operation that this view belongs to.",
            "Which of these phases is under way?",
        ),
    ),
    ChoiceQuestion(
        "SS",
        "step of the operation",
        task="MP",
        category="surgery",
        find=by_annotation(lambda annotation: annotation.step),
        wordings=(
            "Which step of the operation is shown?",
            "What step is the team carrying out?",
            "To which step of the procedure does this view belong?",
            "Name the step that is under way.",
            "Which of these steps is seen here?",
        ),
    ),
    ChoiceQuestion(
        "SA",
        "action of an instrument",
        task="MO",
        category="surgery",
        find=by_annotation(lambda annotation: annotation.action),
        wordings=(
            "What is the instrument doing?",
            "Which action is being carried out?",
            "Name the action that the instrument performs.",
            "What is happening at the tip of the instrument?",
            "Which of these actions is shown?",
        ),
    ),
    ChoiceQuestion(
        "TI",
        "intervention",
        task="MO",
        category="surgery",
        find=by_label(single_finding("therapeutic-procedures")),
        wordings=(
            "Which intervention, or its result, is seen in the image?",
            "What was done to the tissue that is shown?",
            "Which therapeutic situation does this view belong to?",
            "What does the image show of a treatment?",
            "Which of these best describes the treated area?",
        ),
    ),
    ChoiceQuestion(
        "IC",
        "number of kinds of instrument",
        task="IM",
        category="surgery",
        natural_order=True,
        find=by_annotation(instrument_count),
        options=_numbers_around,
        wordings=(
            "How many kinds of instrument are in the image?",
            "Count the different instruments. How many kinds are there?",
            "What is the number of different instruments that are visible?",
            "How many different tools can be seen?",
            "Give the number of kinds of instrument in view.",
        ),
    ),
    ChoiceQuestion(
        "IP",
        "presence of an instrument",
        task="IM",
        category="surgery",
        natural_order=True,
        find=instrument_presence,
        options=lambda candidate, pools: YES_NO,
        wordings=(
            "Is this instrument in the image: {instrument}?",
            "Can the following instrument be seen: {instrument}?",
            "Does the view contain this tool: {instrument}?",
            "Look for this instrument: {instrument}. Is it there?",
            "The phase is «{phase}». Is this instrument in view: {instrument}?",
        ),
    ),
    RegionQuestion(
        "VG",
        "grounding",
        prompt_kind="coordinate",
        asks="box",
        wordings=(
            "Which box holds this: {entity}?",
            "Find the {entity}. Which coordinates enclose it?",
            "Where is the {entity}? Choose its bounding box.",
            "Which of these boxes lies around the {entity}?",
            "Select the coordinates of the region that shows: {entity}.",
        ),
    ),
    RegionQuestion(
        "RS",
        "region selection",
        prompt_kind="multi",
        asks="box",
        wordings=(
            "Which colored box holds this: {entity}?",
            "Around which region is the box that shows the {entity}? Give its color.",
            "Four boxes are drawn. Which one contains the {entity}?",
            "What is the color of the box around the {entity}?",
            "Choose the box whose content is: {entity}.",
        ),
    ),
    RegionQuestion(
        "RR_box",
        "region recognition, box",
        task="RR",
        prompt_kind="box",
        wordings=(
            "What is inside the {color} box?",
            "Which of these is shown within the {color} box?",
            "Look at the area in the {color} box. What is it?",
            "Name the content of the {color} box.",
            "What does the region in the {color} box show?",
        ),
    ),
    RegionQuestion(
        "RR_contour",
        "region recognition, contour",
        task="RR",
        prompt_kind="contour",
        wordings=(
            "What is inside the {color} outline?",
            "Which of these does the {color} line surround?",
            "Look at the area within the {color} outline. What is it?",
            "Name what is outlined in {color}.",
            "What does the region inside the {color} contour show?",
        ),
    ),
    RegionQuestion(
        "RR_multi",
        "region recognition, several regions",
        task="RR",
        prompt_kind="multi",
        wordings=(
            "Several regions are marked. What is inside the {color} one?",
            "Among the marked regions, what does the {color} one show?",
            "Look only at the {color} region. What is it?",
            "Name the content of the region that is marked in {color}.",
            "What does the region with the {color} mark show?",
        ),
    ),
    RegionQuestion(
        "RR_multi_contour",
        "region recognition, several outlines",
        task="RR",
        prompt_kind="multi_contour",
        wordings=(
            "Several regions are outlined. What does the {color} line surround?",
            "Among the outlined regions, what is inside the {color} outline?",
            "Look only at the region with the {color} outline. What is it?",
            "Name what is outlined in {color} among the marked regions.",
            "Which of these does the region within the {color} contour show?",
        ),
    ),
    RegionQuestion(
        "RR_coordinate",
        "region recognition, coordinates",
        task="RR",
        prompt_kind="coordinate",
        wordings=(
            "What is shown in the region [{x1}, {y1}, {x2}, {y2}]?",
            "Look at the box [{x1}, {y1}, {x2}, {y2}]. What is in it?",
            "Which of these lies within [{x1}, {y1}, {x2}, {y2}]?",
            "Name the content of the region [{x1}, {y1}, {x2}, {y2}].",
            "What does the image show between the corners ({x1}, {y1}) and ({x2}, {y2})?",
        ),
    ),
)

BENCHMARK = Benchmark(
    name="endobench",
    title="EndoBench",
    questions=_QUESTIONS,
    builder=EntityBuilder,
    examples=examples_of_entities,
    leaderboard=AccuracyLeaderboard(),
    published=read_published("endobench"),
    prompts={"en": read_prompts("endobench")},
)
