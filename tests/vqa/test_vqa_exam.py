"""The exam in a real browser: draw a box, answer, lose the server, go on, lock, score."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browser import Browser, browser, is_there
from vqa_answers import write_contestant

from vqa.bench.items import Bench, Item
from vqa.people.readers import ReaderFile
from vqa.score.leaderboard import score_lesions
from vqa.score.settings import ScoreSettings

ENTER = "\ue007"


class Server:
    """`python -m vqa exam` in a process of its own."""

    def __init__(self, bench: Bench, people: Path) -> None:
        words = ["exam", str(bench.folder), "--reader", "junior-1", "--group", "junior", "--people", str(people)]
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "vqa", *words], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        self.address = ""
        for line in self.process.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
            if found:
                self.address = found[0]
                break
        assert self.address, "the server did not start"

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Those that are started, so that none outlives a test that fails."""
    started: list[Server] = []
    yield started
    for server in started:
        if server.process.poll() is None:
            server.kill()


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
            "document.getElementById('canvas').width === state.width && document.getElementById('picture').complete"
        )
        page.run("window.scrollTo(0, 0)")
        frame = page.run(
            "const r = document.getElementById('canvas').getBoundingClientRect(); return [r.left, r.top, r.width]"
        )
        scale = frame[2] / item.width
        x1, y1, x2, y2 = item.regions[0].box
        # A pixel inwards: the mouse stays over the picture.
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


@pytest.mark.skipif(not is_there(), reason="chromium and chromedriver are not installed")
def test_an_exam_in_a_browser(lesion_bench: Bench, tmp_path: Path, servers: list[Server]) -> None:
    # One class is enough: eight to ten questions.
    some = {i.sha256 for i in lesion_bench.items if i.human and i.entity in ("Colon polyp", "none")}
    people = tmp_path / "people"
    file = ReaderFile(people, "junior-1")
    file.open("junior", lesion_bench)
    rest = [i for i in lesion_bench.items if i.human and i.sha256 not in some]
    for item in rest:  # answered on another day
        reply = item.answer or (str(list(item.regions[0].box)) if item.regions else item.reference or "None")
        file.append({"id": item.id, "reader": "junior-1", "group": "junior", "response": reply})
    server = Server(lesion_bench, people)
    servers.append(server)
    with browser(tmp_path / "driver.log") as page:
        page.open(server.address)
        page.wait("state !== null && state.questions")
        assert_no_truth(page.source(), httpx.get(server.address.replace("/?", "/state?")).text, lesion_bench)
        answer_some(page, lesion_bench, 3)
        server.kill()
        assert len(file.rows(lesion_bench)) == len(rest) + 3
        with file.answers.open("a", encoding="utf-8") as stream:
            stream.write('{"id": "torn')
        server = Server(lesion_bench, people)
        servers.append(server)
        page.open(server.address)
        page.wait("state !== null")
        assert page.run("return state.done") == len(rest) + 3
        answer_some(page, lesion_bench, 40)
        page.wait("document.getElementById('lock') !== null")
        page.click("#lock")
        page.wait("state.locked")
        refuse_strangers(server.address)
        late = httpx.post(server.address.replace("/?", "/answer?"), json={"id": rest[0].id, "response": "A"})
        assert late.status_code == 400
    server.kill()
    assert file.locked
    model = write_contestant(tmp_path / "model", lesion_bench)
    results = score_lesions(lesion_bench, [model], ScoreSettings(tmp_path / "out", draws=0, people=people))
    reader = next(row for row in results["human"]["rows"] if row["name"] == "junior-1")
    assert reader["q1"]["mean"] == reader["q3"]["mean"] == 1
    assert reader["q2_miou"] > 0.9  # drawn by hand, a pixel inwards
    assert reader["specificity"] == 1
    again = subprocess.run(
        [sys.executable, "-m", "vqa", "exam", str(lesion_bench.folder), "--reader", "junior-1", "--group", "junior",
         "--people", str(people)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 2 and "locked" in again.stderr


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
