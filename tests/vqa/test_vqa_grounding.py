"""What against where, and texts that say too much: counts made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_server import chat_server
from vqa_answers import no_box, write_contestant
from vqa_benches import write_text_bench
from vqa_scores import score_questions

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import read_answer_set
from panendofm.vqa.people.config import JudgeConfig
from panendofm.vqa.people.judge import judge_texts
from panendofm.vqa.people.rate import BlindRating, shown_texts
from panendofm.vqa.people.ratings import Rating, RatingFile, answer_key, texts_to_rate
from panendofm.vqa.score.by_question.grounding import statement
from panendofm.vqa.synthesize import right_reply

GI_BENCH = find_benchmark("gi_bench")
RUBRIC = GI_BENCH.more_rubrics["over_interpretation"]


def test_who_names_without_finding_is_told(lesion_bench: Bench, tmp_path: Path) -> None:
    """Right in site and diagnosis, never in the box; another one that finds all and misnames one class."""
    blind = write_contestant(tmp_path / "blind", lesion_bench, no_box)

    def misnames(item: Item) -> str:
        wrong = item.task == "Q3" and item.entity == "Colon polyp"
        return ("A" if item.answer != "A" else "B") if wrong else item.answer

    finder = write_contestant(tmp_path / "finder", lesion_bench, letter=misnames)
    results = score_questions(lesion_bench, [blind, finder], tmp_path / "out", 200)
    rows = {row.name: row.grounding for row in results.full.rows}
    boxed = [item for item in lesion_bench.items if item.task == "Q2" and item.regions]
    own = rows["blind"]
    assert own is not None and own.n == len(boxed) and own.box == "Q2"
    assert own.shares == {"Q1": 1.0, "Q2": 0.0, "Q3": 1.0} and own.right_without_box == 1.0
    assert own.breaks == {"Q1": 0.0, "Q2": 1.0, "Q3": 0.0, "none": 0.0}
    assert own.gaps["Q3"].difference == -1.0 and own.gaps["Q3"].interval == (-1.0, -1.0)
    sentence = statement("blind", own, GI_BENCH.questions)
    assert (
        sentence.startswith(f"blind finds 0% of {len(boxed)} lesions")
        and "diagnosis by 1.00 (1.00 to 1.00)" in sentence
    )
    assert "most chains break at the box (100%)" in sentence
    other = rows["finder"]
    polyps = sum(item.entity == "Colon polyp" for item in boxed) / len(boxed)
    assert other is not None and 0 < polyps < 1
    assert other.breaks["Q3"] == pytest.approx(polyps) and other.breaks["none"] == pytest.approx(1 - polyps)
    assert sum(other.breaks.values()) == pytest.approx(1) and other.right_without_box == 0
    assert other.gaps["Q3"].difference == pytest.approx(polyps)
    assert "lags behind nothing clearly" in statement("finder", other, GI_BENCH.questions)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Q2: recall over overlap" in page and sentence in page


# ------------------------------------------------------------------------------------------ over-interpretation


def write_texts(bench: Bench, folder: Path) -> Path:
    return write_contestant(folder, bench, letter=right_reply)


def test_judge_and_people_side_by_side(tmp_path: Path) -> None:
    bench = write_text_bench(tmp_path / "bench")
    folder = write_texts(bench, tmp_path / "model")
    sets = [read_answer_set(folder, bench)]
    ratings = tmp_path / "too-much"

    def reply(body: dict[str, object]) -> str:
        assert "0 to 2" in str(body) and "invented" in str(body)
        return '{"wrong_lesion": 0, "invented": 2, "beyond": 1}'

    with chat_server(reply=reply) as server:
        words = [f"api.url={server.url}", "api.model=judge", f"ratings={ratings}", "rubric=over_interpretation"]
        judge_texts(bench, RUBRIC, sets, load_config(JudgeConfig, None, words))
    expert = RatingFile(ratings / "expert-1.jsonl", RUBRIC)
    for number, item in enumerate(bench.items):
        key = answer_key("model", sets[0].answers[item.id, next(iter(sets[0].answers))[1]])
        expert.append(Rating(key, "expert-1", {"wrong_lesion": 0, "invented": int(number == 0), "beyond": 0}))
    row = score_questions(bench, [folder], tmp_path / "out", 100, f"over_interpretation={ratings}").full.rows[0]
    own = row.said_too_much["Q4"]
    assert own["judge"].shares == {"wrong_lesion": 0.0, "invented": 1.0, "beyond": 1.0}
    assert own["people"].shares == {"wrong_lesion": 0.0, "invented": 0.25, "beyond": 0.0}
    interval = own["people"].intervals["invented"]
    assert own["people"].n == 4 and interval is not None and interval[0] <= 0.25 <= interval[1]
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Over-interpretation" in page and "invented findings: 0 every finding can be seen" in page


def test_the_scale_of_a_rubric_holds_everywhere(tmp_path: Path) -> None:
    bench = write_text_bench(tmp_path / "bench")
    sets = [read_answer_set(write_texts(bench, tmp_path / "model"), bench)]
    texts = shown_texts(bench, texts_to_rate(bench, sets))
    rating = BlindRating(texts, RUBRIC, "expert-1", tmp_path / "expert-1.jsonl")
    state = rating.state()
    assert (state.low, state.high) == (0, 2) and len(state.rubric) == 3
    with pytest.raises(UserError, match="from 0 to 2"):
        rating.rate({"key": state.key, "wrong_lesion": 3, "invented": 0, "beyond": 0})
    assert rating.rate({"key": state.key, "wrong_lesion": 0, "invented": 0, "beyond": 2}).done == 1
    with pytest.raises(UserError, match="has no 'overinterpretation'"):
        GI_BENCH.rubric_called("overinterpretation")
