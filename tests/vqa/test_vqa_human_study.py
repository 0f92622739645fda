"""EndoBench's study with people: 255 questions, an exam in a browser, a kill, the lock, groups in the table."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import fork_server
import httpx
import numpy as np
import pytest
from browser import Browser
from page_server import PageServer
from vqa_answers import write_contestant, write_reader
from vqa_benches import build_settings
from vqa_scores import score_choices

from panendofm.atlas.build import load_atlas
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.paired_tests import sign_flip
from panendofm.vqa.bench.bench_folder import Bench, read_bench, write_bench
from panendofm.vqa.bench.build import build_bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.questions.for_people import mark_for_people
from panendofm.vqa.people.exam import Exam
from panendofm.vqa.people.readers import ReaderFile
from panendofm.vqa.score.accuracy.people import human_study
from panendofm.vqa.score.accuracy.results import HumanStudy
from panendofm.vqa.score.sheets import QuestionSet

OPERATION = {
    "phase": ["Preparation", "Clipping", "Dissection", "Retraction"],
    "step": ["Cut", "Sew", "Clamp", "Rinse"],
    "action": ["Idle", "Grasp", "Suck", "Lift"],
}
INSTRUMENTS = ["Clipper", "Grasper", "Hook", "Scissors"]
PEOPLE = 255


@pytest.fixture(scope="module")
def study_bench(shared: Path, atlas_file: Path, synthetic_corpus: Path) -> Bench:
    """Anatomy, lesions and regions of the corpus, and made-up moments of operations: fourteen types for people."""
    if (shared / "study").exists():
        return read_bench(shared / "study")
    annotations = shared / "operations.jsonl"
    lines = []
    for number, row in enumerate(sorted(load_atlas(atlas_file).rows, key=lambda row: row.path)):
        moment = {name: values[number // 4**place % 4] for place, (name, values) in enumerate(OPERATION.items())}
        lines.append({"file": row.path, **moment, "instruments": INSTRUMENTS[: number % 4 + 1]})
    annotations.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    words = [f"annotations={annotations}", f"human_questions={PEOPLE}", "human_most_per_type=20", "cap=14"]
    build_bench(build_settings(atlas_file, synthetic_corpus, shared / "study", *words))
    return read_bench(shared / "study", verify=True)


def test_the_questions_for_people(study_bench: Bench, tmp_path: Path) -> None:
    people = study_bench.for_people
    assert len(people) == PEOPLE
    counts = Counter(item.subtask for item in people)
    assert set(counts.values()) <= {5, 10, 15, 20} and max(counts.values()) - min(counts.values()) <= 5
    assert not {"VG", "RR_coordinate"} & set(counts)  # nobody reads coordinates off an image
    # One original is marked in several ways: what is asked together shows the same image.
    exam = Exam(study_bench, "senior-1", "physician", ReaderFile(tmp_path, "senior-1"))
    shown = [exam.questions(image) for image in exam.order]
    assert sum(map(len, shown)) == PEOPLE and all(len({item.image for item in own}) == 1 for own in shown)
    assert len(exam.order) > len({item.sha256 for item in people})
    # Another order of the questions marks the same ones; another seed others.
    bare = [replace(item, human=False) for item in reversed(study_bench.items)]
    marked = {item.id for item in mark_for_people(bare, PEOPLE, 20, 0) if item.human}
    assert marked == {item.id for item in people}
    assert marked != {item.id for item in mark_for_people(bare, PEOPLE, 20, 1) if item.human}


def test_settings_that_do_not_fit(study_bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="multiples of 5"):
        mark_for_people(study_bench.items, 252, 15, 0)
    fewer = mark_for_people(study_bench.items, 400, 15, 0)  # fourteen types of at most 15
    assert sum(item.human for item in fewer) == 210
    assert "210 of 400" in capsys.readouterr().out
    imported = replace(
        study_bench.items[0], prompt_kind="image", question="Where?", options=("[1, 2, 3, 4]", "[5,6,7,8]")
    )
    assert imported.speaks_of_coordinates


def test_a_bench_without_people_says_how_to_get_them(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="human_questions"):
        Exam(bench, "junior-1", "junior", ReaderFile(tmp_path, "junior-1"))


def answer_over_http(server: PageServer, item: Item, response: str) -> None:
    sent = {"id": item.id, "response": response, "seconds": 3.0}
    assert httpx.post(server.at("/answer"), json=sent).status_code == 200


def click_through(page: Browser, bench: Bench, count: int) -> None:
    for _ in range(count):
        page.wait("state !== null && state.questions")
        item = bench.by_id[page.run("return state.questions[0].id")]
        done = page.run("return state.done")
        page.wait("document.getElementById('image').naturalWidth > 0")
        assert page.run("return document.getElementById('image').naturalWidth") == item.width
        page.click(f"fieldset[data-id='{item.id}'] input[value={item.answer}]")
        page.click(f"fieldset[data-id='{item.id}'] .save")
        page.wait(f"state.done === {done + 1}")


def test_a_study_from_the_exam_to_the_table(
    page: Browser, study_bench: Bench, tmp_path: Path, servers: list[PageServer]
) -> None:
    people = tmp_path / "people"
    exam = ("exam", str(study_bench.folder), "reader=senior-1", "group=physician", f"people={people}")
    servers.append(PageServer(*exam))
    page.open(servers[-1].address)
    click_through(page, study_bench, 3)
    state = httpx.get(servers[-1].at("/state")).json()
    assert state["total"] == PEOPLE and state["done"] == 3
    servers[-1].kill()
    file = ReaderFile(people, "senior-1")
    with file.answers.open("a", encoding="utf-8") as stream:
        stream.write('{"id": "torn')
    servers.append(PageServer(*exam))
    page.open(servers[-1].address)
    page.wait("state !== null")
    assert page.run("return state.done") == 3
    done = {row.id for row in file.rows(study_bench)}
    left = [item for item in study_bench.for_people if item.id not in done]
    for item in left[:-2]:  # every tenth wrong
        wrong = "A" if item.answer != "A" else "B"
        answer_over_http(servers[-1], item, wrong if int(item.id, 16) % 10 == 0 else item.answer)
    page.open(servers[-1].address)
    click_through(page, study_bench, 2)
    page.wait("document.getElementById('lock') !== null")
    page.click("#lock")
    page.wait("state.locked")
    servers[-1].kill()
    assert file.locked and len({row.id for row in file.rows(study_bench)}) == PEOPLE
    write_reader(people, study_bench, "senior-2", "physician", 0.7)
    write_reader(people, study_bench, "trainee-1", "trainee", 0.5)
    models = [write_contestant(tmp_path / "perfect", study_bench)]
    models.append(write_contestant(tmp_path / "always-a", study_bench, letter=lambda item: "A"))
    out = tmp_path / "out"
    score = ["score", str(study_bench.folder), *map(str, models), f"people={people}", f"out={out}"]
    made = fork_server.run_module("panendofm.vqa", *score, "bootstrap.replicates=200")
    assert made.returncode == 0, made.stderr
    assert f"{PEOPLE} of {PEOPLE}" in made.stdout and "mean of 2" in made.stdout
    text = (out / "index.html").read_text(encoding="utf-8")
    for words in ("People and models on the same questions", "physician (mean)", "senior-1", "perfect − physician"):
        assert words in text, words
    assert "physician" in (out / "summary.csv").read_text(encoding="utf-8")
    page.open((out / "index.html").as_uri())
    for width in (400, 1600):
        page.resize(width)
        assert page.overflow_px() == 0, width
    page.resize(1300)


def test_groups_equal_hand_counts(study_bench: Bench, tmp_path: Path) -> None:
    """Means over readers by task, the differences and their tests, counted again here."""
    people = tmp_path / "people"
    for reader, group, share in (("senior-1", "physician", 0.9), ("senior-2", "physician", 0.6), ("new-1", "new", 0.5)):
        write_reader(people, study_bench, reader, group, share)
    model = write_contestant(tmp_path / "always-b", study_bench, letter=lambda item: "B")
    results = score_choices(study_bench, [model], tmp_path / "out", 200, f"people={people}")
    study = results.human
    assert study is not None and study.questions == PEOPLE and results.questions == len(study_bench.items)
    said = {
        reader: {row.id: row.response for row in ReaderFile(people, reader).rows(study_bench)}
        for reader in ("senior-1", "senior-2", "new-1")
    }
    items = study_bench.for_people
    rights = {name: np.array([own[item.id] == item.answer for item in items]) for name, own in said.items()}
    group = study.groups["physician"]
    assert group.readers == ["senior-1", "senior-2"]
    assert group.all.by_reader == pytest.approx([rights["senior-1"].mean(), rights["senior-2"].mean()])
    assert group.all.accuracy == pytest.approx(np.mean(group.all.by_reader))
    tasks = np.array([item.task for item in items])
    for task in set(tasks):
        own = [rights[name][tasks == task].mean() for name in group.readers]
        assert group.axes["task"][task].accuracy == pytest.approx(np.mean(own))
    mine = np.array([item.answer == "B" for item in items], float)
    pooled = (rights["senior-1"] + 0.0 + rights["senior-2"]) / 2
    test = next(one for one in study.against if one.group == "physician")
    assert test.difference == pytest.approx((mine - pooled).mean())
    sums: dict[str, float] = {}
    for item, gap in zip(items, mine - pooled, strict=True):
        sums[item.group] = sums.get(item.group, 0.0) + gap
    assert test.p == pytest.approx(sign_flip([sums[name] for name in sorted(sums)]))
    others = sorted(one.p for one in study.against)
    assert sorted(one.p_holm for one in study.against) == pytest.approx(
        [min(1, 2 * others[0]), max(min(1, 2 * others[0]), others[1])]
    )
    interval = group.all.interval
    assert interval is not None and interval.low < group.all.accuracy < interval.high
    alone = study.contestants["senior-1"].all.interval
    assert alone is not None and interval.high - interval.low > alone.high - alone.low  # readers are drawn too


def test_an_unfinished_exam_counts_only_when_allowed(study_bench: Bench, tmp_path: Path) -> None:
    people = tmp_path / "people"
    write_reader(people, study_bench, "senior-1", "physician", 0.9, lock=False)
    file = ReaderFile(people, "senior-1").answers
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(True)[:100]), encoding="utf-8")
    model = write_contestant(tmp_path / "perfect", study_bench)
    with pytest.raises(UserError, match="isn't finished"):
        score_choices(study_bench, [model], tmp_path / "out", 0, f"people={people}")
    study = score_choices(study_bench, [model], tmp_path / "out", 0, f"people={people}", "allow_partial=true").human
    assert isinstance(study, HumanStudy) and study.questions == 100 and study.questions_for_people == PEOPLE


def test_people_need_questions(study_bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "none"
    (folder / "images").mkdir(parents=True)
    write_bench(folder, [replace(item, human=False) for item in study_bench.items[:10]], study_bench.manifest)
    with pytest.raises(UserError, match="human_questions"):
        human_study(read_bench(folder).items, [], QuestionSet([], BootstrapConfig(replicates=0)))
