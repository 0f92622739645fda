"""People's pages in a real browser.

The exam: draw a box, answer, lose the server, go on, lock, score. Blind rating: rate, lose the server, go on. Pages
that fit narrow and wide windows.
"""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import fork_server
import httpx
from browser import Browser
from page_server import PageServer
from vqa_answers import write_contestant
from vqa_scores import score_choices, score_questions

from panendofm.runtime.files import read_json_lines
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.review import write_review_page
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import read_answer_set
from panendofm.vqa.people.rate import BlindRating, shown_texts
from panendofm.vqa.people.ratings import answer_key, read_ratings, texts_to_rate
from panendofm.vqa.people.readers import ReaderAnswer, ReaderFile
from panendofm.vqa.score.by_question.results import read_question_results

ENTER = "\ue007"
RUBRIC = find_benchmark("gi_bench").rubric
DIMENSIONS = RUBRIC.names


def answer_in_page(page: Browser, field: str, item: Item) -> None:
    """Give the right answer with mouse and keys."""
    done = page.run("return state.done")
    if item.kind == "choice":
        page.click(f"{field} input[value={item.answer}]")
        page.click(f"{field} .save")
    elif item.kind == "text":
        page.type(f"{field} textarea", item.reference)
        page.click(f"{field} .save")
    elif not item.regions:
        page.click(f"{field} .none")
    else:
        page.wait(
            "document.getElementById('canvas').width === state.width && document.getElementById('image').complete"
        )
        page.run("window.scrollTo(0, 0)")
        frame = page.run(
            "const r = document.getElementById('canvas').getBoundingClientRect(); return [r.left, r.top, r.width]"
        )
        scale = frame[2] / item.width
        x1, y1, x2, y2 = item.regions[0].box
        # A pixel inwards: the mouse stays over the image.
        start = (frame[0] + (x1 + 1) * scale, frame[1] + (y1 + 1) * scale)
        page.drag(start, (frame[0] + (x2 - 1) * scale, frame[1] + (y2 - 1) * scale))
        page.wait("box !== null")
        page.press(ENTER)
    page.wait(f"state.done === {done + 1}")


def answer_some(page: Browser, bench: Bench, count: int) -> None:
    for _ in range(count):
        page.wait("state !== null")
        if page.run("return !state.questions"):
            return
        id_ = page.run("return state.questions[0].id")
        answer_in_page(page, f"fieldset[data-id='{id_}']", bench.by_id[id_])


def test_an_exam_in_a_browser(page: Browser, lesion_bench: Bench, tmp_path: Path, servers: list[PageServer]) -> None:
    # One class is enough: eight to ten questions.
    some = {i.sha256 for i in lesion_bench.items if i.human and i.entity in ("Colon polyp", "none")}
    people = tmp_path / "people"
    file = ReaderFile(people, "junior-1")
    file.open("junior", lesion_bench)
    rest = [i for i in lesion_bench.items if i.human and i.sha256 not in some]
    for item in rest:  # answered on another day
        reply = item.answer or (str(list(item.regions[0].box)) if item.regions else item.reference or "None")
        file.append(ReaderAnswer(item.id, "junior-1", "junior", reply))
    exam = ("exam", str(lesion_bench.folder), "reader=junior-1", "group=junior", f"people={people}")
    server = PageServer(*exam)
    servers.append(server)
    page.open(server.address)
    page.wait("state !== null && state.questions")
    assert_no_truth(page.source(), httpx.get(server.at("/state")).text, lesion_bench)
    answer_some(page, lesion_bench, 3)
    server.kill()
    assert len(file.rows(lesion_bench)) == len(rest) + 3
    with file.answers.open("a", encoding="utf-8") as stream:
        stream.write('{"id": "torn')
    server = PageServer(*exam)
    servers.append(server)
    page.open(server.address)
    page.wait("state !== null")
    assert page.run("return state.done") == len(rest) + 3
    answer_some(page, lesion_bench, 40)
    page.wait("document.getElementById('lock') !== null")
    page.click("#lock")
    page.wait("state.locked")
    refuse_strangers(server.address)
    late = httpx.post(server.at("/answer"), json={"id": rest[0].id, "response": "A"})
    assert late.status_code == 400
    server.kill()
    assert file.locked
    model = write_contestant(tmp_path / "model", lesion_bench)
    out = tmp_path / "out"
    score = ("score", str(lesion_bench.folder), str(model), f"people={people}", "bootstrap.replicates=0", f"out={out}")
    assert run_vqa(*score).returncode == 0
    human = read_question_results(out).human
    assert human is not None
    reader = next(row for row in human.rows if row.name == "junior-1")
    assert reader.value("q1") == reader.value("q3") == 1
    assert reader.metrics["q2"].value > 0.9  # drawn by hand, a pixel inwards
    assert reader.boxes["Q2"].specificity == 1
    again = run_vqa(*exam)
    assert again.returncode == 2 and "locked" in again.stderr
    text = file.answers.read_text(encoding="utf-8")
    file.answers.write_text(text.replace('"response": "', '"response":  "', 1), encoding="utf-8")
    changed = run_vqa(*score)
    assert changed.returncode == 2 and "junior-1.jsonl was changed after it was locked" in changed.stderr


def run_vqa(*words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run_module("panendofm.vqa", *words)


def assert_no_truth(source: str, state: str, bench: Bench) -> None:
    """Neither the page nor what it is told says which answer is right, or where anything came from."""
    for text in (source, state):
        for word in ("entity", "regions", "reference", "sha256", ".jpg", "kvasir", "group"):
            assert word not in text, word
        for item in bench.items:
            if item.regions:
                assert str(list(item.regions[0].box)) not in text
            if item.reference and item.kind == "text":
                assert item.reference not in text
    assert "target" not in state
    questions = json.loads(state)["questions"]
    assert all(set(question) == {"id", "kind", "text", "options"} for question in questions)


def refuse_strangers(address: str) -> None:
    bare = address.partition("?")[0]
    assert httpx.get(bare).status_code == 403
    assert httpx.get(f"{bare}?token=wrong").status_code == 403
    assert httpx.get(address.replace("/?", "/state?"), headers={"Origin": "http://evil.example"}).status_code == 403
    assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 403
    post = httpx.post(address.replace("/?", "/lock?"), json={}, headers={"Origin": "null"})
    assert post.status_code == 403
    assert httpx.get(address.replace("/?", "/nothing?")).status_code == 404
    assert "connect-src 'self'" in httpx.get(address).headers["Content-Security-Policy"]


# ------------------------------------------------------------------------------------------ blind rating


def rate_in_page(page: Browser, marks: str) -> None:
    """By keys: one digit for each dimension, then Enter."""
    done = page.run("return state.done")
    for number, mark in enumerate(marks, 1):
        page.press(mark)
        page.wait(f"document.querySelectorAll('input:checked').length === {number}")
    page.press(ENTER)
    page.wait(f"state.done === {done + 1}")


def test_blind_rating_in_a_browser(
    page: Browser, lesion_bench: Bench, tmp_path: Path, servers: list[PageServer]
) -> None:
    folders = [write_contestant(tmp_path / name, lesion_bench) for name in ("vendor-alpha", "vendor-beta")]
    ratings = tmp_path / "ratings"
    rate = ("rate", str(lesion_bench.folder), *map(str, folders), "rater=expert-1", f"ratings={ratings}")
    server = PageServer(*rate)
    servers.append(server)
    page.open(server.address)
    page.wait("state !== null && document.querySelectorAll('fieldset').length === 5")
    first = page.run("return state.key")
    for text in (page.source(), httpx.get(server.at("/state")).text):
        for word in ("vendor", "alpha", "beta", "model", "contestant", str(tmp_path)):
            assert word not in text, word
    page.click("#save")  # nothing chosen yet: the page says what is missing
    assert "language" in page.wait("document.getElementById('note').textContent")
    for bad in ({}, {"language": 6}, {"language": 0}, {"language": 4.5}, {"language": None}):
        values = {"key": first, **dict.fromkeys(DIMENSIONS, 3), **bad} if bad else {"key": first}
        refused = httpx.post(server.at("/rate"), json=values)
        assert refused.status_code == 400 and "language" in refused.text
    rate_in_page(page, "51234")
    rate_in_page(page, "44444")
    file = ratings / "expert-1.jsonl"
    server.kill()
    assert len(read_ratings(ratings, RUBRIC)) == 2
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"answer": "torn')
    page.run("document.querySelectorAll('input[value=\"3\"]').forEach(i => i.click())")
    page.click("#save")  # the page tells that its server is gone
    assert "Start it again" in page.wait("document.getElementById('note').textContent")
    server = PageServer(*rate)
    servers.append(server)
    page.open(server.address)
    page.wait("state !== null")
    total = sum(2 for item in lesion_bench.items if item.kind == "text")
    assert page.run("return [state.done, state.total]") == [2, total]
    assert page.run("return state.key") != first
    rate_in_page(page, "33333")
    twice = httpx.post(server.at("/rate"), json={"key": first, **dict.fromkeys(DIMENSIONS, 3)})
    assert twice.status_code == 400 and "rated before" in twice.text
    refuse_strangers(server.address)
    found = read_ratings(ratings, RUBRIC)
    assert [list(rating.values.values()) for rating in found] == [[5, 1, 2, 3, 4], [4] * 5, [3] * 5]
    assert {rating.rater for rating in found} == {"expert-1"}
    rows = score_questions(lesion_bench, folders, tmp_path / "out", 0, f"ratings={ratings}").full.rows
    texts = {item.id for item in lesion_bench.items if item.kind == "text"}
    parsed = [line for line in read_json_lines(tmp_path / "out" / "parsed.jsonl") if line["id"] in texts]
    rated = [line["value"] for line in parsed if line["value"] is not None]
    assert sorted(rated) == [3, 3, 4] and any("q4" in row.metrics or "q5" in row.metrics for row in rows)


def test_raters_see_texts_in_orders_of_their_own(lesion_bench: Bench, tmp_path: Path) -> None:
    sets = [
        read_answer_set(write_contestant(tmp_path / name, lesion_bench), lesion_bench) for name in ("alpha", "beta")
    ]
    texts = texts_to_rate(lesion_bench, sets)
    orders = [
        list(BlindRating(shown_texts(lesion_bench, texts), RUBRIC, rater, tmp_path / rater).texts)
        for rater in ("e1", "e2", "e1")
    ]
    assert orders[0] == orders[2] != orders[1] and set(orders[0]) == set(orders[1])
    own = {answer_key("alpha", answer) for answer in sets[0].answers.values()}
    sides = [key in own for key in orders[0]]
    changes = sum(a != b for a, b in pairwise(sides))
    assert changes > len(sides) / 4  # mixed: contestants do not come one after the other


# ------------------------------------------------------------------------------------------ widths


def test_pages_fit_narrow_and_wide_windows(
    page: Browser, lesion_bench: Bench, bench: Bench, tmp_path: Path, servers: list[PageServer]
) -> None:
    folder = write_contestant(tmp_path / "perfect", lesion_bench)
    score_choices(bench, [write_contestant(tmp_path / "right", bench)], tmp_path / "choices", 0)
    write_review_page(lesion_bench, tmp_path / "review.html")
    score_questions(lesion_bench, [folder], tmp_path / "out", 0)
    place = str(lesion_bench.folder)
    people, ratings = str(tmp_path / "people"), str(tmp_path / "ratings")
    for words in (
        ("exam", place, "reader=junior-1", "group=junior", f"people={people}"),
        ("rate", place, str(folder), "rater=expert-1", f"ratings={ratings}"),
    ):
        servers.append(PageServer(*words))
    addresses = [server.address for server in servers]
    addresses += [(tmp_path / name).as_uri() for name in ("review.html", "out/index.html", "choices/index.html")]
    try:
        for address in addresses:
            page.open(address)
            page.wait("document.querySelector('fieldset, .card') !== null && document.images[0].naturalWidth > 0")
            for width in (400, 800, 1600):
                page.resize(width)
                assert page.overflow_px() == 0, (address, width)
                image = page.run("const r = document.images[0].getBoundingClientRect(); return [r.left, r.right]")
                assert 0 <= image[0] < image[1] <= width, (address, width)
    finally:
        page.resize(1300)
