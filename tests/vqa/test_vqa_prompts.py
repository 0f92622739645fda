"""The paper's prompts beside ours: golden requests of one bench, and both scores side by side."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server
from vqa_scores import score_choices, score_questions

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import Variant, read_answers
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.prompts import question_text
from panendofm.vqa.client.run import ask_bench, requests_of
from panendofm.vqa.published_prompts import PROFILES

SYSTEM = (
    "You are a professional gastrointestinal endoscopist capable of accurately analyzing endoscopic images and "
    "providing expert insights."
)


def settings(out: Path, url: str, *more: str) -> RunConfig:
    words = [f"api.url={url}", "api.model=m", f"out={out}", "api.backoff_seconds=0.01", *more]
    return load_config(RunConfig, None, words)


def parts_of(body: dict[str, Any]) -> tuple[str, str]:
    """System message and text of a request."""
    messages = body["messages"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    return system, next(part["text"] for part in messages[-1]["content"] if part["type"] == "text")


def first_of(bench: Bench, code: str) -> Item:
    return next(item for item in bench.items if item.subtask == code)


def sent_texts(bench: Bench, tmp_path: Path, *more: str) -> list[tuple[str, str]]:
    with chat_server(reply=lambda body: "A") as server:
        assert ask_bench(bench, settings(tmp_path, server.url, "ask.limit=12", *more)) == 0
        return sorted(parts_of(body) for body in server.bodies)


def test_requests_in_our_words_and_the_papers(lesion_bench: Bench, tmp_path: Path) -> None:
    """The same questions; the words differ, and so do the system messages."""
    ours = sent_texts(lesion_bench, tmp_path / "ours")
    theirs = sent_texts(lesion_bench, tmp_path / "theirs", "ask.prompt=published")
    assert len(ours) == len(theirs) == 12 and not set(ours) & set(theirs)
    assert {system for system, _ in theirs} == {SYSTEM} != {system for system, _ in ours}
    asked = {answer.id for answer in read_answers(tmp_path / "ours" / "answers.jsonl")}
    assert asked == {answer.id for answer in read_answers(tmp_path / "theirs" / "answers.jsonl")}


def test_golden_texts_of_gi_bench(lesion_bench: Bench) -> None:
    site = first_of(lesion_bench, "Q1")
    assert question_text(site, Variant(prompt="published")) == (
        "Which segment of the GI tract does the main anatomical part shown in this image belong to? Please choose from "
        "the following options and return only the letter representing the answer, no other text. Options: "
        "A. Esophagus, B. Stomach, C. Duodenum, D. Colorectum."
    )
    assert question_text(site, Variant(prompt="published", rotation=1)).endswith(
        "Options: A. Stomach, B. Duodenum, C. Colorectum, D. Esophagus."
    )
    assert question_text(site, Variant(prompt="open")).endswith(
        "(Choose from Esophagus, Stomach, Duodenum, Colorectum)"
    )
    box = question_text(first_of(lesion_bench, "Q2"), Variant(prompt="published"))
    assert box.startswith("[Instruction] Analyze the image.") and "[x1, y1, x2, y2]" in box and "pixels" not in box
    diagnosis = question_text(first_of(lesion_bench, "Q3"), Variant(prompt="published"))
    assert "state the basis" not in diagnosis and "No lesion" in diagnosis
    for code in ("Q4", "Q5"):
        assert "in 1-2 sentences" in question_text(first_of(lesion_bench, code), Variant(prompt="published"))
        assert "in 1-2 sentences" not in question_text(first_of(lesion_bench, code), Variant(prompt="open"))


def test_golden_texts_of_endobench(bench: Bench) -> None:
    prompts = find_benchmark("endobench").prompts["en"]
    by_type: dict[str, set[str]] = defaultdict(set)
    for item in bench.items:
        text = question_text(item, Variant(prompt="published"))
        lettered = [f"{letter}. {option}" for letter, option in zip("ABCDEF", item.options, strict=False)]
        head, *rest = text.split("\n")
        assert rest == [*lettered, "Please select the correct answer from the options above."]
        assert head.endswith(":") and not re.search(r"\{\w+\}", text), text
        by_type[item.subtask].add(head[:-1])
        assert text != question_text(item, Variant())
    assert by_type["LI"] <= set(prompts.wordings["LI"]) and len(by_type["LI"]) > 3
    region = first_of(bench, "RR_coordinate")
    assert str(list(region.regions[0].box)) in question_text(region, Variant(prompt="published"))
    selected = first_of(bench, "VG")
    assert "pixels wide" not in question_text(selected, Variant(prompt="published"))  # the paper does not say


def test_every_published_wording_can_be_filled() -> None:
    values = {
        "lesion_type": "polyp",
        "instrument": "hook",
        "phase": "p",
        "color": "red",
        "x1": 1,
        "y1": 2,
        "x2": 3,
        "y2": 4,
    }
    for name in ("endobench", "gi_bench"):
        benchmark = find_benchmark(name)
        codes = {question.code for question in benchmark.questions}
        for prompts in benchmark.prompts.values():
            assert codes <= set(prompts.wordings), codes - set(prompts.wordings)
            for code, wordings in prompts.wordings.items():
                for seed in range(len(wordings)):
                    left = set(re.findall(r"\{(\w+)\}", prompts.text(code, "key", seed, dict(values))))
                    assert left <= {"options", "option_list", "names"}
    chinese = find_benchmark("gi_bench").prompts["zh"]
    assert chinese.translated and "translated by us" in chinese.source


def test_both_scores_side_by_side(lesion_bench: Bench, bench: Bench, tmp_path: Path) -> None:
    """A model that reads options only from lines of their own: our prompt gets it right, the paper's does not."""

    def reply(body: dict[str, Any]) -> str:
        return "A" if "\nA. " in parts_of(body)[1] else "I am not sure."

    folders = {}
    with chat_server(reply=reply) as server:
        for prompt in ("direct", "published"):
            folders[prompt] = tmp_path / prompt
            tasks = "ask.tasks=[Q1,Q3]"
            ask_bench(lesion_bench, settings(folders[prompt], server.url, f"ask.prompt={prompt}", tasks))
    results = score_questions(lesion_bench, list(folders.values()), tmp_path / "out", 50, "allow_partial=true")
    rows = {row.name: row for row in results.full.rows}
    assert set(rows) == {"m [direct]", "m [published]"}
    assert (rows["m [direct]"].value("q1") or 0) > 0 == rows["m [published]"].value("q1")
    (pair,) = results.full.prompt_pairs
    assert (pair.model, pair.first, pair.second) == ("m", "direct", "published")
    assert pair.differences["q1"].difference == pytest.approx(rows["m [direct]"].value("q1"))
    assert "The same model under two prompts" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    with chat_server(reply=lambda body: "B") as server:
        for prompt in ("direct", "published"):
            ask_bench(bench, settings(tmp_path / f"endo-{prompt}", server.url, f"ask.prompt={prompt}"))
    choices = score_choices(bench, [tmp_path / "endo-direct", tmp_path / "endo-published"], tmp_path / "endo", 50)
    assert set(choices.contestants) == {"m [direct]", "m [published]"}
    assert choices.pairs[0].difference == 0  # the letter is the same


def test_a_bench_without_these_words_says_so(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no such wording"):
        list(requests_of(bench, settings(tmp_path, "http://127.0.0.1:1/v1", "ask.prompt=open")))
    assert set(PROFILES) == {"published", "open"}
    manifest = json.loads((bench.folder / "manifest.json").read_text(encoding="utf-8"))
    assert "EndoBench paper" in manifest["published_prompts"]["source"]
