"""Boxes in replies, their fit and their conventions, on worked examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panendofm.scoring.answers.box_replies import read_boxes
from panendofm.scoring.answers.choices import class_f1, common_answers, published_site_f1
from panendofm.scoring.answers.localization import (
    check_conventions,
    iou_best_match,
    iou_first,
    recall_at,
    recall_curve,
    union_iou,
)
from panendofm.scoring.statistics.intervals import group_weights


@pytest.fixture(scope="module")
def cases(golden: Path) -> Any:
    return json.loads((golden / "metrics_gibench.json").read_text(encoding="utf-8"))


def test_boxes_in_replies(cases: Any) -> None:
    size = tuple(cases["box_parsing"]["image"])
    assert len(cases["box_parsing"]["cases"]) == 15
    for case in cases["box_parsing"]["cases"]:
        found = read_boxes(case["response"], size, case["convention"])
        assert found.status == case["status"], case
        assert [list(box) for box in found.boxes] == case["boxes"], case


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ('{"bbox_2d": [10, 20, 30, 40], "label": "polyp"}', "ok"),
        ("<think>[1, 2, 3, 4]</think>[10, 20, 30, 40]", "ok"),
        ("(10,20),(30,40)", "ok"),
        ("**[10, 20, 30, 40]**", "ok"),
        ("<think>hm", "truncated"),
        ("I'm sorry, I can't help with that.", "refused"),
        ("[10, 20, 10, 40]", "invalid_box"),
        ("[700, 20, 900, 40]", "invalid_box"),
        ("None of the walls shows a lesion at 12.", "unparsed"),
        ('{"x1": 10, "y1": 20, "x2": 30, "y2": 40}', "ok"),
        ('{"x_min": 10, "x_max": 30, "y_min": 20, "y_max": 40}', "ok"),
        ("x=10, y=20, width=20, height=20", "ok"),
        ("left: 10, top: 20, right: 30, bottom: 40", "ok"),
        ("[[10, 20], [30, 40]]", "ok"),
        ("<box>10, 20, 30, 40</box>", "ok"),
        ("<box>(10, 20), (30, 40)</box>", "ok"),
        ("<|box_start|>(10,20),(30,40)<|box_end|>", "ok"),
        ("top-left (10, 20) and bottom-right (30, 40)", "ok"),
        ("The lesion spans from (10, 20) to (30, 40).", "ok"),
        ("左上角(10, 20)，右下角(30, 40)", "ok"),
        ("[10px, 20px, 30px, 40px]", "ok"),
        ("[1e1, 2.0e1, .3e2, 40.]", "ok"),
        ("[10 20 30 40]", "ok"),
        ("10 20 30 40", "ok"),
        ("[]", "none"),
        ("无", "none"),
        ("未见病变。", "none"),
        ("No lesion.", "none"),
        ("[[10, 20], [30, 20], [30, 40], [10, 40]]", "unparsed"),  # an outline
        ("center (20, 30)", "unparsed"),
        ("[1e999, nan, 30, 40]", "unparsed"),
        ("[10, 20, 30, 40, 50]", "unparsed"),
        ("x1: 10, y1: 20, x2: 30", "unparsed"),
    ],
)
def test_more_replies(reply: str, status: str) -> None:
    found = read_boxes(reply, (640, 480))
    assert found.status == status
    if status == "ok":
        assert found.boxes == ((10, 20, 30, 40),)


def test_localisation(cases: Any) -> None:
    images, expected = cases["localisation"]["images"], cases["localisation"]["expected"]
    best = np.array([iou_best_match(i["truth"], i["predicted"]) for i in images])
    first = np.array([iou_first(i["truth"], i["predicted"]) for i in images])
    assert best == pytest.approx([i["iou_best_match"] for i in images], abs=1e-9)
    assert first == pytest.approx([i["iou_first"] for i in images], abs=1e-9)
    assert best.mean() == pytest.approx(expected["miou_best_match"], abs=1e-9)
    assert first.mean() == pytest.approx(expected["miou_first"], abs=1e-9)
    assert recall_at(best, 0.5) == pytest.approx(expected["recall_at_0_5"], abs=1e-9)
    assert recall_at(best, 0.75) == pytest.approx(expected["recall_at_0_75"], abs=1e-9)
    curve = {f"{threshold:.2f}": share for threshold, share in recall_curve(best).items()}
    assert curve == pytest.approx(expected["recall_curve_best_match"], abs=1e-9)
    fine = np.linspace(0, 1, 200_001)[1:]
    assert np.mean([recall_at(best, t) for t in fine[::200]]) == pytest.approx(
        expected["area_under_recall_curve"], abs=2e-3
    )
    assert np.mean([bool(i["predicted"]) for i in images]) == pytest.approx(expected["answer_rate"])


def test_outlines_and_unions(cases: Any) -> None:
    case = cases["union_iou"]
    assert iou_best_match(case["truth"], case["predicted"]) == pytest.approx(case["expected"]["best_match"], abs=1e-9)
    assert union_iou(case["truth"], case["predicted"]) == pytest.approx(case["expected"]["union"], abs=1e-9)


def test_conventions_are_diagnosed_never_switched() -> None:
    random = np.random.default_rng(2)
    sizes = [(640, 480)] * 30
    low = random.integers(0, 300, (30, 2))
    truths = [[[int(x), int(y), int(x) + 120, int(y) + 90]] for x, y in low]
    weights = group_weights(np.arange(30), 300, 0)

    def replies(scale: tuple[float, float], swap: bool = False) -> list[str]:
        texts = []
        for [[x1, y1, x2, y2]] in truths:
            values = [x1 * scale[0], y1 * scale[1], x2 * scale[0], y2 * scale[1]]
            values = [values[1], values[0], values[3], values[2]] if swap else values
            texts.append(str([round(v, 3) for v in values]))
        return texts

    cases = {
        "pixel": replies((1, 1)),
        "unit": replies((1 / 640, 1 / 480)),
        "permille": replies((1000 / 640, 1000 / 480)),
        "permille_yx": replies((1000 / 640, 1000 / 480), swap=True),
    }
    for name, texts in cases.items():
        found = check_conventions(texts, truths, sizes, "pixel", weights)
        assert found.better == (None if name == "pixel" else name)
        assert found.mean_iou[name] == pytest.approx(1.0, abs=0.02)
        assert check_conventions(texts, truths, sizes, name, weights).better is None
    garbage = check_conventions(["None"] * 30, truths, sizes, "pixel", weights)
    assert garbage.better is None and set(garbage.mean_iou.values()) == {0.0}


def test_sites(cases: Any) -> None:
    case, expected = cases["anatomy_q1"], cases["anatomy_q1"]["expected"]
    sites = [case["region_of_lesion"][lesion] for lesion in case["gold"]]
    published = published_site_f1(case["gold"], case["region_of_lesion"], case["answers"])
    assert published == pytest.approx(expected["published_f1_by_lesion"], abs=1e-9)
    assert np.mean(list(published.values())) == pytest.approx(expected["published_macro_f1"], abs=1e-9)
    assert class_f1(sites, case["answers"]) == pytest.approx(expected["region_f1"], abs=1e-9)


def test_the_ceiling_of_the_published_figure(cases: Any) -> None:
    case = cases["anatomy_q1_ceiling"]
    lesions = list(cases["published"]["images_by_lesion"].items())
    site_of = {name: "A" if n < 7 else "B" if n < 13 else "D" for n, (name, _) in enumerate(lesions)}
    for counts, expected in (
        ([3] * 20, case["subset_20x3"]["published_macro_f1"]),
        ([count for _, count in lesions], case["full_947"]["published_macro_f1"]),
    ):
        gold = [name for (name, _), count in zip(lesions, counts, strict=True) for _ in range(count)]
        answers = [site_of[name] for name in gold]
        published = published_site_f1(gold, site_of, answers)
        assert np.mean(list(published.values())) == pytest.approx(expected, abs=1e-9)
        assert set(class_f1(answers, answers).values()) == {1.0}
    assert round(case["subset_20x3"]["published_macro_f1"], 4) == 0.2607


def test_refusals(cases: Any) -> None:
    case, expected = cases["refusals"], cases["refusals"]["expected"]
    common = common_answers(case["correct"])
    assert common == expected["intersection"]
    for name, right in case["correct"].items():
        assert np.mean([right[n] for n in common]) == pytest.approx(expected["accuracy_intersection"][name], abs=1e-9)
        wrong = np.mean([value or 0 for value in right])
        assert wrong == pytest.approx(expected["accuracy_refusal_is_wrong"][name], abs=1e-9)
        assert np.mean([v is not None for v in right]) == pytest.approx(expected["answer_rate"][name], abs=1e-9)
