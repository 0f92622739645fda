"""Texts rated in several dimensions: numbers computed by hand, and the page that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from vqa_benches import write_text_bench
from vqa_scores import score_questions

from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import Answer, Variant
from panendofm.vqa.people.ratings import Rating, answer_key
from panendofm.vqa.people.readers import ReaderAnswer, ReaderFile
from panendofm.vqa.score.by_question.results import Difference, Part

DIMENSIONS = find_benchmark("gi_bench").rubric.names
MODELS, READERS = ("fluent", "plain"), ("junior-1", "junior-2")


@pytest.fixture
def expected(golden: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden / "gi_dimensions.json").read_text(encoding="utf-8"))
    return found


def write_rated(bench: Bench, tmp_path: Path, ratings: dict[str, list[list[int]]]) -> list[Path]:
    """Texts of two models and two readers, and one expert's ratings of all of them; the models' folders."""
    lines = []
    for name in MODELS:
        (tmp_path / name).mkdir()
        answers = [Answer(item.id, Variant(), name, f"text of {name}") for item in bench.items]
        (tmp_path / name / "answers.jsonl").write_text("".join(a.to_line() for a in answers), encoding="utf-8")
    for reader in READERS:
        file = ReaderFile(tmp_path / "people", reader)
        file.open("junior", bench)
        for order, item in enumerate(bench.items):
            file.append(ReaderAnswer(item.id, reader, "junior", "a text", 5.0, order, bench.checksum))
        file.lock(len(bench.items))
    for name, rows in ratings.items():
        for item, values in zip(bench.items, rows, strict=True):
            key = answer_key(name, Answer(item.id, Variant(), name, ""))
            rating = Rating(key, "expert-1", dict(zip(DIMENSIONS, values, strict=True)))
            lines.append(json.dumps(rating.line()) + "\n")
    (tmp_path / "ratings").mkdir()
    (tmp_path / "ratings" / "expert-1.jsonl").write_text("".join(lines), encoding="utf-8")
    return [tmp_path / name for name in MODELS]


def human_part(bench: Bench, tmp_path: Path, ratings: dict[str, list[list[int]]], replicates: int) -> Part:
    folders = write_rated(bench, tmp_path, ratings)
    more = (f"people={tmp_path / 'people'}", f"ratings={tmp_path / 'ratings'}")
    human = score_questions(bench, folders, tmp_path / "out", replicates, *more).human
    assert human is not None
    return human


def test_dimensions_equal_numbers_computed_by_hand(expected: dict[str, Any], tmp_path: Path) -> None:
    human = human_part(write_text_bench(tmp_path / "bench"), tmp_path, expected["ratings"], 200)
    rows = {row.name: row for row in [*human.rows, *human.groups]}
    for name in ("fluent", "junior"):
        for dimension, numbers in expected[name].items():
            own = rows[name].dimensions["Q4"][dimension]
            for key, value in numbers.items():
                assert getattr(own, key) == pytest.approx(value, abs=1e-12), (name, dimension, key)
            assert own.n == 4 and own.interval is not None and own.interval[0] <= own.mean <= own.interval[1]
    assert rows["fluent"].dimensions["Q4"]["language"].counts == {"4.000": 2, "5.000": 2}
    for model in MODELS:
        for dimension, numbers in expected["against_junior"][model].items():
            gap: Difference = rows[model].dimensions_against["junior"]["Q4"][dimension]
            for key, value in numbers.items():
                assert getattr(gap, key) == pytest.approx(value, abs=1e-12), (model, dimension, key)
    # The column of the question itself is the total, as in the paper's tables: a mean, not a sum.
    assert rows["fluent"].metrics["q4"].value == pytest.approx(2.5)
    summary = (tmp_path / "out" / "summary.csv").read_text(encoding="utf-8")
    assert "q4_fluency_gap,4,3.0" in summary and "q4_language" in summary


def test_a_dimension_without_ratings_is_left_out(expected: dict[str, Any], tmp_path: Path) -> None:
    """A judge without references gives no accuracy: then there is no gap to it either."""
    bench = write_text_bench(tmp_path / "bench")
    write_rated(bench, tmp_path, expected["ratings"])
    file = tmp_path / "ratings" / "expert-1.jsonl"
    lines = [json.loads(line) | {"accuracy": None} for line in file.read_text(encoding="utf-8").splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    row = score_questions(bench, [tmp_path / "fluent"], tmp_path / "out", 0, f"ratings={file.parent}").full.rows[0]
    assert {"language", "total"} <= set(row.dimensions["Q4"])
    assert not {"accuracy", "fluency_gap"} & set(row.dimensions["Q4"])


def test_the_page_shows_dimensions(expected: dict[str, Any], tmp_path: Path, page: Browser) -> None:
    human_part(write_text_bench(tmp_path / "bench"), tmp_path, expected["ratings"], 50)
    address = tmp_path / "out" / "index.html"
    text = address.read_text(encoding="utf-8")
    for words in ("Q4 findings: dimensions", "language − accuracy", "+3.000 ± 1.155", "3.250 ± 0.354", "paradox"):
        assert words in text, words
    page.open(address.as_uri())
    charts = page.run("return [...document.querySelectorAll('svg')].map(chart => chart.getAttribute('aria-label'))")
    assert (
        sum((label or "").startswith("Q4: ") for label in charts) == 7
    )  # a radar; violins of five dimensions and the total
    try:
        for width in (400, 1600):
            page.resize(width)
            assert page.overflow_px() == 0, width
    finally:
        page.resize(1300)
