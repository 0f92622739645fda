"""Parts of the builder: quotas, coordinates, distractors on worked examples and over ten thousand questions."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panendofm.atlas.datasets.regions import Region
from panendofm.atlas.taxonomy import Label, load_taxonomy
from panendofm.imaging.frame_filters.field_of_view import FieldOfView
from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.localization import corner_iou
from panendofm.vqa.bench.config import BuildConfig, DistractorConfig
from panendofm.vqa.bench.entity_builder import declared_templates
from panendofm.vqa.bench.images.prepare import Prepared, box_as_sent
from panendofm.vqa.bench.images.sources import Annotation, SourceImage
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.bench.questions.distractors import refusal_of
from panendofm.vqa.bench.questions.options import Pools, true_of
from panendofm.vqa.bench.questions.planner import Planner
from panendofm.vqa.bench.questions.select import water_filling
from panendofm.vqa.bench.questions.templates import Templates
from panendofm.vqa.bench.questions.types import ChoiceQuestion
from panendofm.vqa.bench.questions.vocabulary import load_vocabulary
from panendofm.vqa.benchmark import find_benchmark

ENDOBENCH = find_benchmark("endobench")
QUESTIONS = [question for question in ENDOBENCH.questions if isinstance(question, ChoiceQuestion)]


def all_candidates(images: list[SourceImage]) -> list[Candidate]:
    finders = {question.pool: question.find for question in QUESTIONS}
    return [candidate for pool, find in finders.items() for candidate in find(pool, images, load_vocabulary())]


def planner_of(candidates: list[Candidate], codes: tuple[str, ...] = ()) -> Planner:
    asked = [question for question in QUESTIONS if not codes or question.code in codes]
    return Planner(asked, Pools(candidates), declared_templates(ENDOBENCH), BuildConfig())


@pytest.fixture(scope="module")
def cases(golden: Path) -> Any:
    return json.loads((golden / "metrics_endobench.json").read_text(encoding="utf-8"))


def test_quotas(cases: Any) -> None:
    for case in cases["quotas"]:
        found = water_filling(case["sizes"], case["cap"], case["total"])
        assert found == case["expected"]
        assert sum(found.values()) == case["sum"]
    assert water_filling({}, 5) == {}
    assert water_filling({"a": 3, "b": 0}) == {"a": 3, "b": 0}


def test_coordinates(cases: Any, golden: Path) -> None:
    for case in cases["coordinates"]:
        assert box_as_sent(case["box"], tuple(case["crop"]), tuple(case["sent_size"])) == tuple(case["expected"])
    view = json.loads((golden / "metrics_gibench.json").read_text(encoding="utf-8"))["field_of_view"]
    left, top, right, bottom = view["crop"]
    sent = box_as_sent(view["truth_in_original"], (left, top, right, bottom), (right - left, bottom - top))
    assert sent == tuple(view["expected_truth_in_crop"])
    assert corner_iou([sent], [view["predicted_in_crop"]])[0, 0] == view["expected_iou"]
    assert box_as_sent([0, 0, 50, 50], (30, 0, 100, 100), (70, 100)) is None  # 0.4 of it is left


def test_box_overlap(cases: Any) -> None:
    for case in cases["box_iou"]:
        assert corner_iou([case["a"]], [case["b"]])[0, 0] == pytest.approx(case["iou"], abs=1e-9)


def test_distractor_boxes(cases: Any) -> None:
    case = cases["distractor_boxes"]
    settings = case["config"]
    x1, y1, x2, y2 = settings["field_of_view"]
    corners = np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]], np.float32)
    size = tuple(settings["image"])
    prepared = Prepared((0, 0, *size), size, FieldOfView("rectangle", corners, size))
    accepted: list[list[int]] = []
    reasons = []
    for box in case["candidates_in_order"]:
        reasons.append(
            refusal_of(box, case["truth"], [case["truth"]], accepted, prepared.inside_share, DistractorConfig())
        )
        if reasons[-1] is None:
            accepted.append(box)
    assert reasons == case["expected"]["rejected_because"]
    assert accepted == case["expected"]["accepted"]
    assert corner_iou(accepted, [case["truth"]])[:, 0].tolist() == case["expected"]["iou_with_truth"]


def test_templates_are_checked() -> None:
    with pytest.raises(UserError, match="at least 5"):
        Templates({"LI": ["What?"] * 7}, "mine.yaml")
    with pytest.raises(UserError, match=r"unknown placeholder \{colour\}"):
        Templates({"LI": [f"{{colour}} {n}?" for n in range(5)]}, "mine.yaml")


# ------------------------------------------------------------------------------------------ ten thousand questions


def made_up_images(count: int) -> list[SourceImage]:
    """Images with labels and regions from the whole taxonomy, some with several labels, and of operations."""
    random = np.random.default_rng(0)
    taxonomy = load_taxonomy()
    labels = [Label(f.region, f.category, f.name) for f in taxonomy.findings.values() if f.region != "unknown"]
    labels += [Label(f.region, f.category, f.name, g) for f in taxonomy.findings.values() for g in f.grades]
    by_organ = {organ: [x for x in labels if x.region == organ] for organ in taxonomy.regions if organ != "unknown"}
    instruments = ["Hook", "Grasper", "Clipper", "Scissors"]
    images = []
    for number in range(count):
        organ = list(by_organ)[random.integers(len(by_organ))]
        own = {by_organ[organ][random.integers(len(by_organ[organ]))] for _ in range(random.integers(1, 4))}
        regions = []
        for _ in range(random.integers(0, 4)):
            label = by_organ[organ][random.integers(len(by_organ[organ]))]
            x, y = (int(v) for v in random.integers(0, 300, 2))
            width, height = (int(v) for v in random.integers(10, 150, 2))
            box = (x, y, min(x + width, 400), min(y + height, 400))
            corners = ((box[0], box[1]), (box[2], box[1]), (box[2], box[3]))
            regions.append(Region(label, box, corners if random.uniform() < 0.5 else ()))
        annotation = None
        if number % 4 == 0:
            there = tuple(sorted(random.choice(instruments, random.integers(0, 4), replace=False)))
            annotation = Annotation("cholecystectomy", f"phase {number % 7}", f"step {number % 5}", "", there)
        images.append(
            SourceImage(
                f"{number:064x}",
                Path(f"{number}.jpg"),
                ("kvasir",),
                tuple(sorted(own)),
                (),
                f"g{number % 300}",
                tuple(regions),
                all_marked=True,
                annotation=annotation,
            )
        )
    return images


@pytest.fixture(scope="module")
def many() -> tuple[list[Item], dict[str, SourceImage], Prepared, Planner]:
    images = made_up_images(1060)
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    circle = (200 + 198 * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(np.float32)
    prepared = Prepared((0, 0, 400, 400), (400, 400), FieldOfView("circle", circle, (400, 400)))
    candidates = all_candidates(images)
    planner = planner_of(candidates)
    planned = [q for c in candidates for q in planner.plan(c, prepared)]
    items = planner.deal(planned, {p.sha256: prepared for p in images})
    return items, {p.sha256: p for p in images}, prepared, planner


def test_distractors_of_ten_thousand_questions(
    many: tuple[list[Item], dict[str, SourceImage], Prepared, Planner],
) -> None:
    items, images, _, _ = many
    assert len(items) >= 10_000
    assert {question.code for question in QUESTIONS} - {item.subtask for item in items} <= {"SA"}
    vocabulary = load_vocabulary()
    taxonomy = load_taxonomy()
    every = {*taxonomy.findings, *taxonomy.aliases, *taxonomy.regions, "normal"}
    every |= {grade for finding in taxonomy.findings.values() for grade in finding.grades}
    entity_of: dict[str, set[str]] = defaultdict(set)
    for entity in every:
        entity_of[vocabulary.name(entity)].add(entity)
    category = {**{f.name: f.category for f in taxonomy.findings.values()}}
    for item in items:
        assert len(set(item.options)) == len(item.options) >= 2
        assert item.answer_text in item.options
        if item.natural_order or item.subtask in ("VG", "RS", "SP", "SS"):
            continue
        true = true_of(images[item.sha256])
        assert item.answer_text == vocabulary.name(item.entity)
        for option in item.options:
            if option == item.answer_text:
                continue
            entities = entity_of[option]
            assert entities and not entities & true, item
            for entity in entities:
                # Every kind of polyp is a polyp.
                for label in true - ({"colon-polyp"} if item.subtask == "PT" else set()):
                    assert not vocabulary.may_both_be_true(label, entity), (item.options, label)
                # Of the same kind: an organ beside organs, a finding of one category beside its like.
                if item.subtask in ("LI", "LC", "TI") and item.entity != "normal" and entity != "normal":
                    assert category[entity] == category[item.entity]
                if item.subtask == "OI":
                    assert entity in taxonomy.regions


def test_boxes_of_ten_thousand_questions(many: tuple[list[Item], dict[str, SourceImage], Prepared, Planner]) -> None:
    items, images, prepared, _ = many
    seen = 0
    for item in items:
        if item.subtask not in ("VG", "RS"):
            continue
        seen += 1
        truth, *others = (region.box for region in item.regions)
        named = [
            box
            for region in images[item.sha256].regions
            if region.label.finding == item.entity and (box := prepared.box(region.box)) is not None
        ]
        assert truth in named and len(others) == 3
        assert corner_iou(others, named).max() <= 0.1
        assert (corner_iou(others, others) - np.eye(3)).max() <= 0.2
        assert prepared.inside_share(np.array(others)).min() >= 0.95
        sides = [[box[2] - box[0], box[3] - box[1]] for box in (truth, *others)]
        factors = np.array(sides[1:]) / np.array(sides[0])
        assert factors.min() >= 0.8 and factors.max() <= 1.25
        if item.subtask == "VG":
            assert [int(v) for v in re.findall(r"\d+", item.answer_text)] == list(truth)
        else:
            assert sorted(item.options) == ["Blue", "Green", "Red", "Yellow"]
            assert item.answer_text.lower() == item.regions[0].color
    assert seen > 1000


def test_no_question_without_room_for_other_boxes() -> None:
    polyp = Label("colon", "pathological-findings", "colon-polyp")
    large = Region(polyp, (20, 20, 380, 380))
    image = SourceImage("0" * 64, Path("a.jpg"), ("kvasir",), (polyp,), (), "g0", (large,))
    prepared = Prepared((0, 0, 400, 400), (400, 400))
    candidates = all_candidates([image])
    planner = planner_of(candidates, ("VG", "RS"))
    assert [q for c in candidates for q in planner.plan(c, prepared)] == []
    assert planner.left_out == {"VG: no room for other boxes": 1, "RS: no room for other boxes": 1}


def test_letters_of_ten_thousand_questions(many: tuple[list[Item], dict[str, SourceImage], Prepared, Planner]) -> None:
    items = many[0]
    letters: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    by_entity: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    for item in items:
        if not item.natural_order:
            letters[(item.task, len(item.options))][item.answer] += 1
            by_entity[(item.subtask, len(item.options), item.entity)][item.answer] += 1
    for table in (letters, by_entity):
        for key, counts in table.items():
            values = [counts["ABCD"[place]] for place in range(int(key[1]))]
            assert max(values) - min(values) <= 1, key
    for item in items:
        if item.subtask == "LQ":
            assert item.options == ("0", "1", "2", "3", "4", "More than 4")


def test_candidates_with_two_answers_are_not_asked() -> None:
    polyp, colitis = (Label("colon", "pathological-findings", name) for name in ("colon-polyp", "ulcerative-colitis"))
    both = SourceImage("0" * 64, Path("a.jpg"), ("kvasir",), (polyp, colitis), (), "g0")
    found = all_candidates([both])
    assert [c.pool for c in found] == ["OI"]


def test_sizes_of_boxes_tell_nothing(many: tuple[list[Item], dict[str, SourceImage], Prepared, Planner]) -> None:
    ranks: Counter[int] = Counter()
    for item in many[0]:
        if item.subtask == "VG":
            areas = [(r.box[2] - r.box[0]) * (r.box[3] - r.box[1]) for r in item.regions]
            ranks[sum(area > areas[0] for area in areas[1:])] += 1
    total = sum(ranks.values())
    for rank in range(4):
        assert abs(ranks[rank] / total - 0.25) < 4 * np.sqrt(0.25 * 0.75 / total), ranks
