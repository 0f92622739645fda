"""Models against groups of readers, repeated and blind runs, several annotators: what the leaderboard says of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fork_server
import numpy as np
import pytest
from chat_server import chat_server
from sklearn.metrics import f1_score
from vqa_answers import no_box, write_contestant, write_reader
from vqa_scores import score_questions

from panendofm.atlas.build import Atlas, load_atlas, save_atlas
from panendofm.runtime.config import load_config
from panendofm.runtime.files import read_json_lines
from panendofm.scoring.statistics.paired_tests import holm
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.build import build_bench
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.bench.images.sources import read_sources, with_one_annotator
from panendofm.vqa.bench.items import Item, MarkedRegion, question_id
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import Answer, Variant, read_answer_set, read_run
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.run import ask_bench
from panendofm.vqa.people.ratings import texts_to_rate
from panendofm.vqa.score.by_question.results import Part, Row, read_question_results
from panendofm.vqa.synthesize import right_reply as true_box

DIMENSIONS = find_benchmark("gi_bench").rubric.names


def wrong_letter(item: Item) -> str:
    return "A" if item.answer != "A" else "B"


def human_part(bench: Bench, folders: list[Path], tmp_path: Path, replicates: int = 400) -> Part:
    """The table of what people answered too; they are in tmp_path/people."""
    part = score_questions(bench, folders, tmp_path / "out", replicates, f"people={tmp_path / 'people'}").human
    assert part is not None
    return part


def first_row(bench: Bench, folder: Path, tmp_path: Path, replicates: int = 400, *more: str) -> Row:
    return score_questions(bench, [folder], tmp_path / "out", replicates, *more).full.rows[0]


# ------------------------------------------------------------------------------------------ groups of readers


def test_a_difference_is_drawn_over_images_and_readers(lesion_bench: Bench, tmp_path: Path) -> None:
    people = tmp_path / "people"
    write_reader(people, lesion_bench, "able-1", "mixed", 1.0)
    write_reader(people, lesion_bench, "lost-1", "mixed", 0.0)
    write_reader(people, lesion_bench, "twin-1", "twin", 0.6)
    # A model that gives the very replies of the reader twin-1, image by image.
    said = {line["id"]: line["response"] for line in read_json_lines(people / "twin-1.jsonl")}
    same = write_contestant(
        tmp_path / "same",
        lesion_bench,
        lambda item: said.get(item.id, "None"),
        lambda item: said.get(item.id, item.answer),
    )
    perfect = write_contestant(tmp_path / "perfect", lesion_bench)
    rows = {row.name: row for row in human_part(lesion_bench, [same, perfect], tmp_path).rows}
    for metric in ("q1", "q2", "q3", "q3_macro_f1", "q2_recall_0_5"):
        own = rows["same"].against["twin"][metric]
        # Paired: equal replies leave no doubt. Draws of their own for each side would.
        assert own.difference == pytest.approx(0, abs=1e-12)
        assert own.interval == pytest.approx((0, 0), abs=1e-12) and own.p in (None, 1)
        interval = rows["same"].metrics[metric].interval
        assert interval is not None and interval[1] > interval[0]
    gap = rows["perfect"].against["mixed"]["q3"]
    # Drawing the able reader twice leaves no difference, drawing the lost one twice all of it.
    assert gap.difference == pytest.approx(0.5) and gap.interval == pytest.approx((0, 1))


def test_groups_have_f1_and_every_other_figure(lesion_bench: Bench, tmp_path: Path) -> None:
    people = tmp_path / "people"
    for reader, share in (("junior-1", 0.9), ("junior-2", 0.6)):
        write_reader(people, lesion_bench, reader, "junior", share)
    folder = write_contestant(tmp_path / "perfect", lesion_bench)
    group = human_part(lesion_bench, [folder], tmp_path).groups[0]
    items = [i for i in lesion_bench.items if i.human and i.task == "Q3" and i.entity != "none"]
    expected = []
    for reader in ("junior-1", "junior-2"):
        said = {line["id"]: line["response"] for line in read_json_lines(people / f"{reader}.jsonl")}
        gold, chosen = [i.answer for i in items], [said[i.id] for i in items]
        expected.append(f1_score(gold, chosen, labels=sorted(set(gold)), average="macro"))
    assert group.value("q3_macro_f1") == pytest.approx(np.mean(expected))
    for metric in ("q1_region_macro_f1", "q3_macro_f1", "q2_recall_0_5", "q2_recall_0_75"):
        own = group.metrics[metric]
        assert own.interval is not None and own.interval[0] <= own.value <= own.interval[1]
    assert group.boxes["Q2"].valid_rate == 1 and 0 < group.plain["q1_f1_published"].value < 1 and group.seconds == 5
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8") as stream:
        lines = [row for row in csv.DictReader(stream) if row["group"] == "junior"]
    assert {row["metric"] for row in lines} >= {"q1", "q2", "q3", "q3_macro_f1"}
    assert all(float(row["difference_low"]) <= float(row["difference"]) for row in lines)


def test_holm_is_over_all_models_and_groups_of_a_column(lesion_bench: Bench, tmp_path: Path) -> None:
    people = tmp_path / "people"
    write_reader(people, lesion_bench, "junior-1", "junior", 1.0)
    write_reader(people, lesion_bench, "trainee-1", "trainee", 0.5)
    folders = [
        write_contestant(tmp_path / "perfect", lesion_bench),
        write_contestant(tmp_path / "wrong", lesion_bench, no_box, wrong_letter),
    ]
    rows = human_part(lesion_bench, folders, tmp_path, 0).rows
    for metric in ("q1", "q3"):
        found = {
            f"{row.name} {group}": own[metric] for row in rows for group, own in row.against.items() if metric in own
        }
        assert len(found) == 4
        corrected = holm({name: own.p for name, own in found.items() if own.p is not None})
        assert {name: own.p_holm for name, own in found.items()} == pytest.approx(corrected)


# ------------------------------------------------------------------------------------------ repeated and blind runs


def write_variants(folder: Path, bench: Bench, variants: list[Variant], right: Callable[[Item, Variant], bool]) -> Path:
    folder.mkdir(parents=True)
    lines = []
    for item in bench.items:
        for variant in variants:
            good = right(item, variant)
            reply = item.reference if item.kind == "text" else true_box(item) if good else "None"
            if item.kind == "choice":
                reply = item.answer if good else wrong_letter(item)
            lines.append(Answer(item.id, variant, folder.name, reply).to_line())
    (folder / "answers.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def test_repeated_runs_show_their_spread(lesion_bench: Bench, tmp_path: Path) -> None:
    polyps = {item.sha256 for item in lesion_bench.items if item.entity == "Colon polyp"}
    # One class of five is wrong in the second run.
    folder = write_variants(
        tmp_path / "model",
        lesion_bench,
        [Variant(), Variant(repeat=1), Variant(repeat=2)],
        lambda item, variant: variant.repeat != 1 or item.sha256 not in polyps,
    )
    row = first_row(lesion_bench, folder, tmp_path, 0)
    assert row.repeats["q3"].runs == pytest.approx([1, 0.8, 1])
    assert row.repeats["q3"].standard_deviation == pytest.approx(np.std([1, 0.8, 1], ddof=1))
    assert "Repeated runs" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    # What a repeated run has not asked yet is no mistake of it.
    lines = (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    rest = [line for line in lines if '"repeat": 2' not in line or json.loads(line)["id"] < "8"]
    (folder / "answers.jsonl").write_text("".join(rest), encoding="utf-8")
    assert first_row(lesion_bench, folder, tmp_path, 0).repeats["q3"].runs[2] == 1


def test_blind_runs_show_what_the_image_adds(lesion_bench: Bench, tmp_path: Path) -> None:
    folder = write_variants(
        tmp_path / "model",
        lesion_bench,
        [Variant(), Variant(blind=True)],
        lambda item, variant: not variant.blind or item.task == "Q1",
    )
    sets = [read_answer_set(folder, lesion_bench)]
    plain, both = texts_to_rate(lesion_bench, sets), texts_to_rate(lesion_bench, sets, blind=True)
    assert len(both) == 2 * len(plain)
    seen = {text.key for text in plain}
    lines = [
        json.dumps({"answer": t.key, "rater": "expert-1", **dict.fromkeys(DIMENSIONS, 4 if t.key in seen else 3)})
        for t in both
    ]
    ratings = tmp_path / "ratings"
    ratings.mkdir()
    (ratings / "expert-1.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    blind = first_row(lesion_bench, folder, tmp_path, 400, f"ratings={ratings}").blind
    assert blind["q3"].without_image == 0 and blind["q3"].image_adds == 1
    assert blind["q1"].image_adds == 0 and blind["q1"].interval == (0, 0)
    assert blind["q5"].without_image == 3 and blind["q5"].image_adds == pytest.approx(1)
    parsed = list(read_json_lines(tmp_path / "out" / "parsed.jsonl"))
    assert len(parsed) == 2 * len(lesion_bench.items)
    by_task = {row["task"]: row for row in parsed if not row["variant"]["blind"]}
    assert by_task["Q1"]["value"] == 1 and by_task["Q1"]["rule"] == "letter"
    boxes = [row for row in parsed if row["task"] == "Q2" and lesion_bench.by_id[row["id"]].targets]
    assert {row["value"] for row in boxes if row["variant"]["blind"]} == {0.0}
    assert {(row["value"], row["status"]) for row in boxes if not row["variant"]["blind"]} == {(1.0, "ok")}
    assert by_task["Q5"]["value"] == 4 and by_task["Q5"]["text"] == "Biopsy."


def test_replies_of_another_form_are_asked_again_when_that_is_wanted(lesion_bench: Bench, tmp_path: Path) -> None:
    words = ["api.model=m", "api.kind=open", "ask.tasks=[Q1,Q2]", "ask.limit=6", "api.concurrency=1"]
    asked = {"n": 0}

    def reply(body: dict[str, Any]) -> str:
        asked["n"] += 1
        return "Well." if asked["n"] % 3 else ("[1, 2, 30, 40]" if "bounding box" in str(body) else "A")

    with chat_server(reply=reply) as server:
        for name, retries in (("never", 0), ("twice", 2)):
            asked["n"] = 0
            own = [f"api.url={server.url}", f"out={tmp_path / name}", f"ask.format_retries={retries}"]
            assert ask_bench(lesion_bench, load_config(RunConfig, None, [*words, *own])) == 0
    never, twice = ([json.loads(x) for x in (tmp_path / n / "answers.jsonl").open()] for n in ("never", "twice"))
    assert [line["format_retries"] for line in never] == [0] * 6
    assert [line["format_retries"] for line in twice] == [2] * 6
    assert all(line["response"] != "Well." for line in twice)
    # Every request is paid for, the repeated ones too.
    assert all(t["usage"]["prompt_tokens"] == 3 * never[0]["usage"]["prompt_tokens"] for t in twice)
    run = read_run(tmp_path / "twice")
    assert run is not None and run.kind == "open"


# ------------------------------------------------------------------------------------------ what else is true of a box


def test_several_boxes_outlines_and_annotators(lesion_bench: Bench, tmp_path: Path) -> None:
    """Two halves of a box count as the whole; an outline has its own ceiling; annotators are the ceiling of models."""
    items, outlined = [], ((100, 100), (180, 100), (100, 180))
    for item in lesion_bench.items:
        if item.task == "Q2" and item.targets:
            halves = tuple(
                MarkedRegion("x", "", box, target=True) for box in ((100, 100, 140, 180), (140, 100, 180, 180))
            )
            whole = (
                MarkedRegion("x", "", (100, 100, 180, 180), outlined, target=True),
                MarkedRegion("x", "", (100, 100, 180, 180), annotator="a"),
                MarkedRegion("x", "", (100, 100, 140, 180), annotator="b"),
            )
            item = replace(item, width=200, height=200, regions=halves if item.entity == "Colon polyp" else whole)
        items.append(item)
    bench = Bench(lesion_bench.folder, lesion_bench.manifest, items, lesion_bench.checksum)
    folder = write_contestant(tmp_path / "box", bench, lambda i: "[100, 100, 180, 180]" if i.targets else "None")
    own = first_row(bench, folder, tmp_path, 50).boxes["Q2"]
    assert own.miou == 1  # the best of two halves alone would be 0.5
    assert own.best_match is not None and own.best_match < 1 and own.union == 1
    assert own.by_convention["pixel"] == 1 and own.looks_like is None
    assert own.outline == pytest.approx(0.5) == own.outline_ceiling
    assert own.by_annotator == pytest.approx({"a": 1, "b": 0.5})
    assert own.annotators_iou == pytest.approx(0.5)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "against b" in page and "own boxes overlap by 0.500" in page


def test_building_keeps_both_annotators_and_asks_for_their_consensus(
    atlas_file: Path, synthetic_corpus: Path, tmp_path: Path
) -> None:
    known: dict[str, list[dict[str, Any]]] = {}
    for line in read_json_lines(synthetic_corpus / "regions.jsonl"):
        known.setdefault(str((synthetic_corpus / line["file"]).resolve()), []).append(line)
    atlas = load_atlas(atlas_file)
    rows = [r for r in atlas.rows if "polyps" in r.own_labels and len(known.get(r.path, ())) == 1]
    rows = sorted(rows, key=lambda row: row.path)[:4]
    assert len(rows) == 4
    save_atlas(Atlas(rows, atlas.info), tmp_path / "atlas.parquet")
    lines = []
    for number, row in enumerate(rows):
        (region,) = known[row.path]
        x1, y1, x2, y2 = region["box"]
        marks = {"a": [x1, y1, x2, y2], "b": [x1, y1, x2 - 8, y2 - 8]}
        if number == 0:
            marks["b"] = [0, 0, 10, 10]  # another place
        if number == 1:
            marks["consensus"] = [x1, y1, x2 - 2, y2 - 2]
        lines += [{"file": row.path, "label": "polyps", "box": box, "annotator": name} for name, box in marks.items()]
    listed = tmp_path / "regions.jsonl"
    listed.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    words = [f"data={tmp_path / 'atlas.parquet'}", f"regions={listed}", f"out={tmp_path / 'bench'}"]
    dropped = question_id(rows[3].sha256, "Q1", "gi_synthetic")
    (tmp_path / "review.csv").write_text(f"id,decision,answer,note,reviewer\n{dropped},drop,,dark,r1\n")
    words += ["images.crop=false", "lesions.human_per_class=0", f"review={tmp_path / 'review.csv'}"]
    build_bench(load_config(BuildConfig, Path(__file__).with_name("gi_synthetic.yaml"), words))
    bench = read_bench(tmp_path / "bench")
    boxes = {item.source: item for item in bench.items if item.task == "Q2"}
    assert bench.manifest.reviewed == 1 and dropped not in bench.by_id
    assert Path(rows[0].path).name not in boxes
    assert bench.manifest.left_out["box question: the annotators mark different places"] == 1
    for number, row in enumerate(rows[1:], 1):
        item = boxes[Path(row.path).name]
        x1, y1, x2, y2 = known[row.path][0]["box"]
        middle = (x1, y1, x2 - 2, y2 - 2) if number == 1 else (x1, y1, x2 - 4, y2 - 4)
        assert [region.box for region in item.targets] == [middle]
        assert {region.annotator for region in item.regions if not region.target} == {"a", "b"}
    row = first_row(bench, write_contestant(tmp_path / "perfect", bench), tmp_path, 20)
    assert row.metrics["q1"].n == 3 and row.value("q2") == 1 and (row.boxes["Q2"].annotators_iou or 1) < 1
    # Other questions take the boxes of one of them, not all.
    images = read_sources(tmp_path / "atlas.parquet", listed, None).images
    single = {p.path.name: with_one_annotator(p).regions for p in images}
    assert {name: [r.annotator for r in own] for name, own in single.items()} == {
        Path(row.path).name: ["consensus" if number == 1 else "a"] for number, row in enumerate(rows)
    }


# ------------------------------------------------------------------------------------------ made-up contestants


def test_made_up_contestants_by_the_commands_of_the_demo(lesion_bench: Bench, tmp_path: Path) -> None:
    def run(*words: str) -> None:
        done = fork_server.run_module("panendofm.vqa", *words)
        assert done.returncode == 0, done.stderr

    bench = str(lesion_bench.folder)
    run("synthesize", bench, f"out={tmp_path}")
    answers = [str(tmp_path / "answers" / name) for name in ("perfect", "shifted")]
    run("score", bench, *answers, f"people={tmp_path / 'people'}", f"out={tmp_path / 'results'}")
    human = read_question_results(tmp_path / "results").human
    assert human is not None
    rows = {row.name: row for row in human.rows}
    assert rows["perfect"].value("q2") == 1 and rows["shifted"].value("q2") == pytest.approx(1 / 3, abs=0.01)
    assert {group.name for group in human.groups} == {"junior", "trainee"}
    assert rows["perfect"].metrics["q3"].value > rows["trainee-1"].metrics["q3"].value
