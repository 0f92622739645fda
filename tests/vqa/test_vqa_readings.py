"""Other ways to read replies: the likelihood of options on a real network, and letters that a model extracts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_server import chat_server
from vqa_benches import disc_bench
from vqa_scores import score_choices

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.choices import rotated
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.client.answers import Answer, Variant, read_answers
from panendofm.vqa.client.config import ExtractConfig, RunConfig
from panendofm.vqa.client.extract import extract_answers, read_letter
from panendofm.vqa.client.prompts import question_text
from panendofm.vqa.client.run import ask_bench

SCRIPT = Path(__file__).with_name("tiny_llava.py")


@pytest.fixture(scope="module")
def discs(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return disc_bench(tmp_path_factory.mktemp("discs") / "bench", per_color=1)


# ------------------------------------------------------------------------------------------ likelihood


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "tiny-llava"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    make = [sys.executable, str(SCRIPT), "make", str(folder), "--random"]
    subprocess.run(make, env=environment, check=True, capture_output=True)
    return folder


def losses(model: Path, bench: Bench, answer: Answer, continuations: list[str]) -> list[float]:
    """Transformers' own loss over the continuation alone: the mean negative log-likelihood of its tokens."""
    import torch
    from PIL import Image
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    network = LlavaForConditionalGeneration.from_pretrained(model).eval()
    processor = AutoProcessor.from_pretrained(model)
    item = bench.by_id[answer.id]
    text = f"<|user|><image>{question_text(item, answer.variant)}<|assistant|>"
    found = []
    for continuation in continuations:
        inputs = processor(text=[text], images=[Image.open(bench.folder / item.image)], return_tensors="pt")
        whole = processor(
            text=[text + continuation], images=[Image.open(bench.folder / item.image)], return_tensors="pt"
        )
        labels = whole["input_ids"].clone()
        labels[:, : inputs["input_ids"].shape[1]] = -100
        with torch.no_grad():
            found.append(float(network(**whole, labels=labels).loss))
    return found


@pytest.mark.parametrize("mode", ["letters", "texts"])
def test_likelihood_equals_the_loss_of_transformers(model: Path, discs: Bench, tmp_path: Path, mode: str) -> None:
    words = [f"api.local={model}", f"out={tmp_path / 'answers'}", f"ask.likelihood={mode}", "ask.rotations=all"]
    assert ask_bench(discs, load_config(RunConfig, None, words)) == 0
    answers = read_answers(tmp_path / "answers" / "answers.jsonl")
    assert len(answers) == 16
    for answer in [answers[0], next(a for a in answers if a.variant.rotation == 3)]:
        shown = rotated(discs.by_id[answer.id].options, answer.variant.rotation)
        expected = losses(model, discs, answer, list("ABCD") if mode == "letters" else shown)
        assert [-value for value in answer.log_probabilities] == pytest.approx(expected, abs=1e-5)
        assert answer.response == "ABCD"[int(np.argmin(expected))]
    results = score_choices(discs, [tmp_path / "answers"], tmp_path / "out", 100)
    own = results.contestants["tiny-llava"].likelihood
    assert own is not None and own.mode == mode and own.n == 4
    right = []
    for item in discs.items:
        by_option: dict[str, list[float]] = {option: [] for option in item.options}
        for answer in answers:
            if answer.id == item.id:
                for option, value in zip(
                    rotated(item.options, answer.variant.rotation), answer.log_probabilities, strict=True
                ):
                    by_option[option].append(value)
        right.append(max(by_option, key=lambda option: float(np.mean(by_option[option]))) == item.answer_text)
    assert own.over_rotations == pytest.approx(np.mean(right))
    assert f"likelihood of {mode} over all orders" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_likelihood_needs_a_local_model(tmp_path: Path) -> None:
    words = ["api.url=http://127.0.0.1:1/v1", "api.model=m", f"out={tmp_path}", "ask.likelihood=letters"]
    with pytest.raises(UserError, match=r"api\.local"):
        load_config(RunConfig, None, words)


# ------------------------------------------------------------------------------------------ extraction


def write_replies(bench: Bench, folder: Path) -> Path:
    """A clear letter, two that only a reader with judgment understands, and a refusal."""
    replies = [
        bench.items[0].answer,
        "Something warm, like blood.",
        "It has the hue of grass.",
        "I cannot help with that.",
    ]
    folder.mkdir()
    answers = [Answer(item.id, Variant(), folder.name, reply) for item, reply in zip(bench.items, replies, strict=True)]
    (folder / "answers.jsonl").write_text("".join(answer.to_line() for answer in answers), encoding="utf-8")
    return folder


def settings(url: str) -> ExtractConfig:
    return load_config(ExtractConfig, None, [f"api.url={url}", "api.model=reader", "api.retries=0"])


def test_extracted_letters_stand_beside_the_strict_score(discs: Bench, tmp_path: Path) -> None:
    folder = write_replies(discs, tmp_path / "vague")

    def reader(body: dict[str, Any]) -> str:
        text = body["messages"][0]["content"]
        return discs.items[1].answer if "blood" in text.partition("Reply: ")[2] else "Z"

    with chat_server(reply=reader) as server:
        extract_answers(discs, folder, settings(server.url))
        asked = [body["messages"][0]["content"] for body in server.bodies]
        extract_answers(discs, folder, settings(server.url))  # nothing is left to ask
        assert len(server.bodies) == len(asked) == 2
    for text in asked:  # options, and not which of them is right
        assert "A. red" in text and "correct" not in text.lower() and "right answer" not in text.lower()
    results = score_choices(discs, [folder], tmp_path / "out", 50)
    own = results.contestants["vague"]
    assert own.extraction is not None
    assert (own.extraction.by, own.extraction.tried, own.extraction.now_right) == ("reader", 2, 1)
    assert own.extraction.changed == [discs.items[1].id]
    assert own.all.accuracy == own.extraction.strict == 0.25 and own.extraction.extracted == 0.5
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "read by reader" in page and "Something warm, like blood." in page


def test_a_reader_that_is_killed_or_goes_on_talking(discs: Bench, tmp_path: Path) -> None:
    folder = write_replies(discs, tmp_path / "vague")
    with chat_server(lambda number, body: (500, "", {}) if number == 0 else None, lambda body: "B.") as server:
        extract_answers(discs, folder, settings(server.url))
        assert len((folder / "extracted.jsonl").read_text(encoding="utf-8").splitlines()) == 1
        with (folder / "extracted.jsonl").open("a", encoding="utf-8") as stream:
            stream.write('{"id": "to')
        extract_answers(discs, folder, settings(server.url))
    lines = [json.loads(line) for line in (folder / "extracted.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["letter"] for line in lines] == ["B", "B"]
    item = discs.items[0]
    for reply in ("Z", "E", "B or C", "The answer is B", "", "b"):
        assert read_letter(reply, item) is None, reply
    assert read_letter(" (C). ", item) == "C"
    other = load_config(ExtractConfig, None, ["api.url=http://127.0.0.1:1/v1", "api.model=other"])
    with pytest.raises(UserError, match="was made by reader"):
        extract_answers(discs, folder, other)
    own = load_config(ExtractConfig, None, ["api.url=http://127.0.0.1:1/v1", "api.model=vague"])
    with pytest.raises(UserError, match="wrote these replies"):
        extract_answers(discs, folder, own)
