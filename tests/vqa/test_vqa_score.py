"""Scores, tables and pages; what is exported, imported, and found elsewhere."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from chat_server import chat_server
from vqa_benches import disc_bench
from vqa_scores import score_choices

from panendofm.records.shards import Manifest, ShardFolder, write_index
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_checksums
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.config import ExportConfig, ImportConfig, RephraseConfig
from panendofm.vqa.bench.exports import export_bench
from panendofm.vqa.bench.imports import import_tsv
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.rephrase import refusal_of, rephrase_bench
from panendofm.vqa.bench.review import write_review_page
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import Answer, Variant
from panendofm.vqa.encoder import answer_with_encoder, fit_head
from panendofm.vqa.score.accuracy.leaderboard import check_bench
from panendofm.vqa.score.config import CheckConfig, ContaminationConfig, EncoderConfig
from panendofm.vqa.score.contamination import find_contamination


def write_answers(folder: Path, items: list[Item], reply: Any, name: str, variants: Any = None) -> Path:
    """Answers of a made-up contestant; `reply` gets the question and its variant."""
    folder.mkdir(parents=True)
    lines = [
        Answer(item.id, variant, name, reply(item, variant)).to_line()
        for item in items
        for variant in (variants(item) if variants else [Variant()])
    ]
    (folder / "answers.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def other_letter(item: Item) -> str:
    return next(letter for letter in "ABCD" if letter != item.answer)


def test_scores_of_made_up_contestants(bench: Bench, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    good = set(random.permutation([item.id for item in bench.items])[: len(bench.items) * 3 // 4])

    def three_quarters(item: Item, variant: Variant) -> str:
        return f"The answer is {item.answer}." if item.id in good else "I'm sorry, I can't help with that."

    perfect = write_answers(tmp_path / "p", bench.items, lambda i, v: i.answer_text, "perfect")
    partly = write_answers(tmp_path / "q", bench.items, three_quarters, "partly")
    wrong = write_answers(tmp_path / "w", bench.items, lambda i, v: other_letter(i), "wrong")
    results = score_choices(bench, [perfect, partly, wrong], tmp_path / "out", 200)
    own = results.contestants
    assert own["perfect"].all.accuracy == 1 and own["perfect"].all.chance_corrected == 1
    assert own["partly"].all.accuracy == pytest.approx(len(good) / len(bench.items))
    assert own["partly"].statuses["refused"] == len(bench.items) - len(good)
    assert own["wrong"].all.accuracy == 0
    for found in own.values():
        assert sum(found.statuses.values()) == len(bench.items)
        for axis in ("task", "subtask", "scene", "prompt_kind", "category", "dataset"):
            assert sum(part.n for part in found.axes[axis].values()) == len(bench.items)
        assert found.all.interval is not None
        assert found.all.interval.low <= found.all.accuracy <= found.all.interval.high
    chances = [1 / len(item.options) for item in bench.items]
    assert own["wrong"].all.chance == pytest.approx(np.mean(chances))
    assert all(pair.p_holm < 0.01 for pair in results.pairs)
    # Another seed draws others, and a smaller share of them lies closer together.
    words = ["bootstrap.seed=1", "bootstrap.confidence=0.5"]
    narrow = score_choices(bench, [partly], tmp_path / "narrow", 200, *words).contestants["partly"].all.interval
    wide = own["partly"].all.interval
    assert narrow is not None and wide is not None and narrow.high - narrow.low < 0.6 * (wide.high - wide.low)
    assert "Intervals: 50%" in (tmp_path / "narrow" / "index.html").read_text(encoding="utf-8")
    assert {pair.test for pair in results.pairs} == {"sign flip over groups"}
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "published, other questions" in page and "reviewed by physicians: 0" in page
    assert "http://" not in page and "https://" not in page and str(tmp_path) not in page
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "summary.csv").read_text(encoding="utf-8"))))
    assert {row["contestant"] for row in rows} == {"perfect", "partly", "wrong"}
    assert (tmp_path / "out" / "table.tex").read_text(encoding="utf-8").count("\\\\") == 4


def test_rotation_and_blind_see_through_a_letter_habit(tmp_path: Path) -> None:
    discs = disc_bench(tmp_path / "bench")

    def variants(item: Item) -> list[Variant]:
        return [*(Variant(rotation=r) for r in range(4)), Variant(blind=True), Variant(perturb="dark")]

    # As the tiny model does: the canonical letter of the color whatever the order, and always A without a image.
    habit = write_answers(tmp_path / "habit", discs.items, lambda i, v: "A" if v.blind else i.answer, "habit", variants)
    reader = write_answers(
        tmp_path / "reader",
        discs.items,
        lambda i, v: "A" if v.blind else "no idea" if v.perturb else f"It is {i.answer_text}.",
        "reader",
        variants,
    )
    own = score_choices(discs, [habit, reader], tmp_path / "out", 50).contestants
    turned = {name: found.rotation for name, found in own.items()}
    assert turned["habit"] is not None and turned["reader"] is not None
    assert own["habit"].all.accuracy == 1
    assert turned["habit"].rotation_accuracy == 0.25
    assert turned["habit"].circular_accuracy == 0
    assert own["habit"].blind is not None
    assert own["habit"].blind.accuracy == 0.25 and own["habit"].blind.above_chance == 0
    assert turned["reader"].circular_accuracy == 1
    assert own["reader"].perturbed["dark"].robustness.perturbed_accuracy == 0
    assert own["habit"].perturbed["dark"].robustness.drop == 0
    assert own["reader"].wilson is not None  # every image is a group of its own


def test_partial_answers_are_compared_on_common_questions(bench: Bench, tmp_path: Path) -> None:
    half = bench.items[::2]
    whole = write_answers(tmp_path / "a", bench.items, lambda i, v: i.answer, "a")
    part = write_answers(tmp_path / "b", half, lambda i, v: i.answer, "b")
    with pytest.raises(UserError, match="allow_partial=true"):
        score_choices(bench, [whole, part], tmp_path / "out", 0)
    results = score_choices(bench, [whole, part], tmp_path / "out", 0, "allow_partial=true")
    assert results.questions == len(half) < results.questions_in_bench
    assert f"Only {len(half)} of" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_our_encoder_takes_part(bench: Bench, atlas_file: Path, synthetic_corpus: Path, tmp_path: Path) -> None:
    some = [item for item in bench.items if item.subtask in ("LC", "VG", "RR_box")]
    smaller = Bench(bench.folder, bench.manifest, some, bench.checksum)
    words = [f"data={atlas_file}", f"regions={synthetic_corpus / 'regions.jsonl'}", "network=pixels"]
    config = load_config(EncoderConfig, None, [*words, f"out={tmp_path / 'linear'}"])
    answer_with_encoder(find_benchmark("endobench"), smaller, config)
    results = score_choices(smaller, [tmp_path / "linear"], tmp_path / "out", 100)
    found = results.contestants["pixels (linear head)"]
    assert found.kind == "encoder"
    for task in ("LT", "VG", "RR"):  # colors alone tell much of the synthetic classes
        assert found.axes["task"][task].chance_corrected > 0.4
    assert str(tmp_path) not in (tmp_path / "linear" / "run.json").read_text(encoding="utf-8")


def test_heads_score_the_class_that_is_near() -> None:
    random = np.random.default_rng(0)
    centers = np.eye(3).repeat(10, axis=0)
    vectors = centers + 0.1 * random.normal(size=centers.shape)
    names = [name for name in ("a", "b", "c") for _ in range(10)]
    for head in ("linear", "nearest"):
        config = load_config(EncoderConfig, None, ["data=x", "out=y", "network=z", f"head={head}"])
        made = fit_head(vectors, names, config)
        assert [made.entities[n] for n in made.score(np.eye(3)).argmax(axis=1)] == ["a", "b", "c"]


def test_shortcuts_are_flagged(bench: Bench, tmp_path: Path) -> None:
    from dataclasses import replace

    config = CheckConfig(BootstrapConfig(200))
    assert check_bench(bench, config) in (0, 1)
    # A bench in which one answer is nearly always right.
    items = [i for i in bench.items if i.subtask == "LC"]
    common = Counter(item.entity for item in items).most_common(1)[0][0]
    skewed = [i for i in items if i.entity == common] + [i for i in items if i.entity != common][:1]
    skewed = [replace(item, group=f"g{n}") for n, item in enumerate(skewed)]
    assert check_bench(Bench(bench.folder, bench.manifest, skewed, bench.checksum), config) == 1


# ------------------------------------------------------------------------------------------ exports and imports


def test_datasets_reads_the_export(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    export_bench(bench, ExportConfig(str(tmp_path / "hf")))
    import datasets

    loaded = datasets.load_dataset(str(tmp_path / "hf"), cache_dir=str(tmp_path / "cache"))["test"]
    assert len(loaded) == len(bench.items)
    row, item = loaded[5], bench.items[5]
    assert row["image"].size == (item.width, item.height)
    assert (row["question"], tuple(row["options"]), row["answer"]) == (item.question, item.options, item.answer)
    assert [region["box"] for region in row["regions"]] == [list(region.box) for region in item.regions]
    assert "kvasir" in (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")


def test_an_imported_bench_exports_to_the_same_questions(bench: Bench, tmp_path: Path) -> None:
    bench = Bench(bench.folder, bench.manifest, bench.items[::4], bench.checksum)
    export_bench(bench, ExportConfig(str(tmp_path / "tsv"), "vlmevalkit"))
    first = tmp_path / "tsv" / "endobench.tsv"
    import_tsv(first, load_config(ImportConfig, None, [f"out={tmp_path / 'again'}", "name=endobench"]))
    again = read_bench(tmp_path / "again", verify=True)
    assert [(i.id, i.question, i.options, i.answer, i.task, i.subtask, i.group) for i in again.items] == [
        (i.id, i.question, i.options, i.answer, i.task, i.subtask, i.group) for i in bench.items
    ]
    assert all(again.image(again.by_id[i.id]) == bench.image(i) for i in bench.items)
    export_bench(again, ExportConfig(str(tmp_path / "tsv2"), "vlmevalkit"))
    assert (tmp_path / "tsv2" / "endobench.tsv").read_bytes() == first.read_bytes()


def test_a_foreign_tsv(bench: Bench, tmp_path: Path) -> None:
    """As EndoBench is published: columns of its own, one image for several questions, no groups."""
    import base64

    some = [i for i in bench.items if i.subtask == "OI"][:6]
    rows = []
    for number, item in enumerate(some):
        image = base64.b64encode(bench.image(item)).decode()
        row = {
            "index": str(number),
            "image": image,
            "question": item.question,
            "answer": item.answer,
            "kind of task": "organ",
        }
        rows.append({**row, **dict(zip("ABCD", item.options, strict=False)), "D": "", "hint": "look closely"})
    rows.append({**rows[0], "index": "6", "image": "0", "question": "Which organ, again?"})
    path = tmp_path / "EndoBench.tsv"

    def write(columns: list[str]) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, columns, delimiter="\t", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)

    write(list(rows[0]))
    config = load_config(ImportConfig, None, [f"out={tmp_path / 'bench'}", "columns.task='kind of task'"])
    import_tsv(path, config)
    made = read_bench(tmp_path / "bench")
    assert len(made.items) == 7 and {i.task for i in made.items} == {"organ"}
    assert made.items[6].image == made.items[0].image and made.items[6].group == made.items[0].group
    assert json.loads(made.items[0].other)["hint"] == "look closely"
    assert made.items[0].options == some[0].options
    write([name for name in rows[0] if name != "answer"])
    with pytest.raises(UserError, match="the column 'answer' is missing"):
        import_tsv(path, load_config(ImportConfig, None, [f"out={tmp_path / 'x'}"]))
    assert not (tmp_path / "x").exists()


def test_lmms_eval_folder(bench: Bench, tmp_path: Path) -> None:
    import yaml

    export_bench(bench, ExportConfig(str(tmp_path / "lmms"), "lmms-eval"))
    text = (tmp_path / "lmms" / "endobench.yaml").read_text(encoding="utf-8").replace("!function", "")
    task = yaml.safe_load(text)
    for key in ("dataset_path", "task", "test_split", "output_type", "doc_to_visual", "doc_to_text", "doc_to_target"):
        assert key in task
    names: dict[str, Any] = {}
    exec((tmp_path / "lmms" / "utils.py").read_text(encoding="utf-8"), names)
    item = bench.items[0]
    doc = {"question": item.question, "options": list(item.options), "answer": item.answer}
    assert f"A. {item.options[0]}" in names["doc_to_text"](doc)
    assert names["process_results"](doc, [f"Answer: {item.answer}"]) == {"accuracy": 1.0}
    assert names["process_results"](doc, [other_letter(item)]) == {"accuracy": 0.0}


def test_rephrasing_keeps_what_matters(tmp_path: Path, bench: Bench) -> None:
    item = next(i for i in bench.items if i.subtask == "VG")
    original = item.question
    cases = {
        original.replace("pixels", "dots"): None,
        original.replace(str(item.width), "7"): "numbers changed",
        original + " It is red.": "colors changed",
        original * 4: "numbers changed",
        re_named(original): "the entity's name is gone",
    }
    for wording, reason in cases.items():
        assert refusal_of(original, wording, item) == reason, wording
    organ = next(i for i in bench.items if i.subtask == "OI")
    assert (
        refusal_of(organ.question, f"Is it the {organ.answer_text.lower()}, do you think?", organ)
        == "an option is named"
    )
    discs = disc_bench(tmp_path / "discs", per_color=1)
    replies = iter(["<question>What is the disc's colour?</question>", "What colour?", "<question></question>"] * 2)
    with chat_server(reply=lambda body: next(replies)) as server:
        words = [f"api.url={server.url}", "api.model=m", f"out={tmp_path / 'new'}"]
        rephrase_bench(discs, load_config(RephraseConfig, None, words))
    made = read_bench(tmp_path / "new", verify=True)
    assert [i.question for i in made.items].count("What is the disc's colour?") == 2
    assert all(i.question_original == "Which colour is the disc?" for i in made.items)
    assert made.manifest.rephrased is not None
    assert made.manifest.rephrased.outcomes == {"nothing between the tags": 2, "taken": 2}


def re_named(question: str) -> str:
    """The question about something else, of the same length."""
    for name in ("colon polyp", "cecum", "dyed lifted polyp", "dyed resection margin"):
        question = question.replace(name, "x" * len(name))
    return question


def test_review_page(bench: Bench, tmp_path: Path) -> None:
    few = Bench(bench.folder, bench.manifest, bench.items[:5], bench.checksum)
    write_review_page(few, tmp_path / "review.html")
    text = (tmp_path / "review.html").read_text(encoding="utf-8")
    assert text.count('class="card"') == 5 and "http" not in text.replace("http-equiv", "")


# ------------------------------------------------------------------------------------------ contamination


def planted_shards(folder: Path, images: list[np.ndarray[Any, Any]]) -> Path:
    """A small shard set that holds these images."""
    folder.mkdir()
    samples = []
    with tarfile.open(folder / "shard-000000.tar", "w") as tar:
        for number, image in enumerate(images):
            places = []
            for suffix, content in (("jpg", cv2.imencode(".jpg", image)[1].tobytes()), ("json", b"{}")):
                info = tarfile.TarInfo(f"key{number}.{suffix}")
                info.size = len(content)
                places += [tar.offset + 512, info.size]
                tar.addfile(info, io.BytesIO(content))
            samples.append((f"key{number}", *places))
    write_index(folder / "shard-000000.tar", samples, (folder / "shard-000000.tar").stat().st_size)
    ShardFolder(folder).write_manifest(Manifest(["shard-000000.tar"], frames=len(images)))
    write_checksums(folder, ["manifest.json"])
    return folder


def test_a_planted_leak_is_flagged(bench: Bench, synthetic_corpus: Path, tmp_path: Path) -> None:
    shown = {item.sha256: item for item in bench.items if item.image.endswith(".jpg")}
    leaked = list(shown.values())[:3]
    images = [cv2.imread(str(bench.folder / item.image)) for item in leaked]
    height, width = images[0].shape[:2]
    images[0] = cv2.resize(images[0], (width * 3 // 4, height * 3 // 4), interpolation=cv2.INTER_AREA)
    images[1] = np.clip(images[1] * 0.8 + 12 * (images[1] > 5), 0, 255).astype(np.uint8)
    innocent = sorted((synthetic_corpus / "kvasir-dataset-v2" / "normal-pylorus").glob("*.jpg"))
    sources = {item.source for item in bench.items}
    innocent = [path for path in innocent if path.name not in sources][:6]
    images += [cv2.imread(str(path)) for path in innocent]
    shards = planted_shards(tmp_path / "shards", images)
    copies = tmp_path / "copies"
    copies.mkdir()
    fourth = list(shown.values())[3]
    shutil.copy(next(synthetic_corpus.rglob(fourth.source)), copies / "renamed.jpg")
    looked = ContaminationConfig([str(shards)], [str(copies)], str(tmp_path / "report.json"))
    report = find_contamination(bench, looked)
    # Frames of one scene a moment apart are the same image to anybody who has seen one.
    groups = {item.group for item in [*leaked, fourth]}
    assert {item.sha256 for item in [*leaked, fourth]} <= set(report.seen)
    by_sha = {item.sha256: item.group for item in bench.items}
    assert {by_sha[sha] for sha in report.seen} <= groups
    assert {sighting.how for sighting in report.sightings} == {"equal file", "looks the same"}

    # A contestant that knows only what it has seen.
    def memory(item: Item, variant: Variant) -> str:
        return item.answer if item.sha256 in report.seen else other_letter(item)

    knows = write_answers(tmp_path / "knows", bench.items, memory, "knows")
    results = score_choices(bench, [knows], tmp_path / "out", 50, f"contamination={tmp_path / 'report.json'}")
    assert results.contamination is not None
    accuracy = results.contamination.accuracy["knows"]
    assert accuracy["seen"].accuracy == 1 and accuracy["not_seen"].accuracy == 0
    assert "seen elsewhere" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
