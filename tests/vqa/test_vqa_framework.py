"""A benchmark is one declaration: a third one and a new question type need no other change."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chat_server import chat_server
from vqa_answers import write_contestant, write_reader
from vqa_benches import build_settings
from vqa_scores import score_choices, score_questions

import panendofm.vqa
from panendofm.atlas import Label
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.vqa import benchmark as registry
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.build import build_bench
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.bench.entity_builder import EntityBuilder
from panendofm.vqa.bench.images.sources import SourceImage
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.lesion_builder import Case, LesionBuilder, LesionQuestion, examples_of_lesions
from panendofm.vqa.bench.questions.candidates import by_label
from panendofm.vqa.bench.questions.types import ChoiceQuestion, examples_of_entities
from panendofm.vqa.benchmark import Benchmark, declare, find_benchmark
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.run import ask_bench
from panendofm.vqa.encoder import answer_with_encoder
from panendofm.vqa.people.exam import Exam
from panendofm.vqa.people.readers import ReaderFile
from panendofm.vqa.reply_kinds import TEXT
from panendofm.vqa.score.accuracy.leaderboard import AccuracyLeaderboard
from panendofm.vqa.score.by_question.leaderboard import QuestionLeaderboard
from panendofm.vqa.score.config import EncoderConfig
from panendofm.vqa.score.metric import macro_accuracy, macro_f1, mean
from panendofm.vqa.synthesize import synthesize

PACKAGE = Path(panendofm.vqa.__file__).parent


@pytest.fixture
def declared() -> Iterator[None]:
    """What a test declares is forgotten afterwards."""
    before = dict(registry._DECLARED)
    yield
    registry._DECLARED.clear()
    registry._DECLARED.update(before)


# ------------------------------------------------------------------------------------------ a third benchmark


def dye(image: SourceImage) -> tuple[Label, str] | None:
    """Whether the mucosa is dyed: a question type that no shipped benchmark has."""
    dyed = [label for label in image.labels if label.finding.startswith("dyed")]
    polyps = [label for label in image.labels if label.finding == "colon-polyp"]
    return (dyed[0], "Yes") if dyed else (polyps[0], "No") if polyps else None


DYE = ChoiceQuestion(
    "DY",
    "dye",
    task="DYE",
    natural_order=True,
    find=by_label(dye),
    options=lambda candidate, pools: ("Yes", "No"),
    wordings=tuple(f"Was the mucosa dyed, in view number {number}?" for number in range(5)),
)


def test_a_third_benchmark_is_built_asked_scored_and_shown(
    declared: None, atlas_file: Path, synthetic_corpus: Path, tmp_path: Path
) -> None:
    declare(Benchmark("dyebench", "DyeBench", (DYE,), EntityBuilder, examples_of_entities, AccuracyLeaderboard()))
    build_bench(build_settings(atlas_file, synthetic_corpus, tmp_path / "bench", "benchmark=dyebench", "name=dye"))
    bench = read_bench(tmp_path / "bench", verify=True)
    assert bench.manifest.benchmark == "dyebench" and bench.manifest.counts["task"] == {"DYE": len(bench.items)}
    assert {item.answer_text for item in bench.items} == {"Yes", "No"} and len(bench.items) >= 8
    answers = [tmp_path / "asked", write_contestant(tmp_path / "perfect", bench), tmp_path / "encoder"]
    with chat_server(reply=lambda body: "A") as server:
        words = [f"api.url={server.url}", "api.model=always-yes", f"out={answers[0]}", "ask.rotations=all"]
        assert ask_bench(bench, load_config(RunConfig, None, words)) == 0
    words = [f"data={atlas_file}", "network=pixels", f"out={answers[2]}"]
    answer_with_encoder(find_benchmark("dyebench"), bench, load_config(EncoderConfig, None, words))
    results = score_choices(bench, answers, tmp_path / "out", 100)
    assert results.benchmark == "dyebench"
    assert results.contestants["perfect"].axes["task"]["DYE"].accuracy == 1
    yes = sum(item.answer_text == "Yes" for item in bench.items) / len(bench.items)
    assert results.contestants["always-yes"].all.accuracy == pytest.approx(yes)
    rotation = results.contestants["always-yes"].rotation_of_natural_order
    assert rotation is not None and rotation.circular_accuracy == 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "DYE" in page and "always-yes" in page and "Published" not in page


# ------------------------------------------------------------------------------------------ a new question type


def ask_region(case: Case, item: Item) -> Item:
    """Upper or lower tract: two options, whatever the lesion."""
    upper = case.candidate.scene in ("esophagus", "stomach", "duodenum")
    return replace(item, options=("Upper", "Lower"), answer="A" if upper else "B")


TRACT = LesionQuestion(
    "Q6",
    "tract",
    wordings=("Does the image show the upper or the lower tract?",),
    for_people="Upper or lower?",
    make=ask_region,
    examples=lambda image, lesion, note: [("Upper" if lesion.site in ("esophagus", "stomach") else "Lower", None)],
    metrics=(macro_accuracy("q6", "Q6 tract"), macro_f1("q6_f1", "Q6 F1", by_class=False)),
)


@pytest.fixture
def six_questions(declared: None, atlas_file: Path, synthetic_corpus: Path, tmp_path: Path) -> Bench:
    """GI-Bench with one entry more, and nothing else."""
    gi_bench = find_benchmark("gi_bench")
    declare(replace(gi_bench, name="gi_bench_6", questions=(*gi_bench.questions, TRACT)))
    words = [f"data={atlas_file}", f"regions={synthetic_corpus / 'regions.jsonl'}", f"out={tmp_path / 'bench'}"]
    settings = Path(__file__).with_name("gi_synthetic.yaml")
    build_bench(load_config(BuildConfig, settings, [*words, "benchmark=gi_bench_6"]))
    return read_bench(tmp_path / "bench")


def test_a_question_type_is_added_in_one_place(six_questions: Bench, atlas_file: Path, tmp_path: Path) -> None:
    bench = six_questions
    added = [item for item in bench.items if item.subtask == "Q6"]
    assert len(added) == bench.manifest.images and {item.answer_text for item in added} == {"Upper", "Lower"}
    # People are asked it, in their own words.
    file = ReaderFile(tmp_path / "exam", "junior-9")
    file.open("junior", bench)
    exam = Exam(bench, "junior-9", "junior", file)
    shown = [question for question in exam.state().questions or [] if question.text == "Upper or lower?"]
    assert len(shown) == 1 and shown[0].options == [("A", "Upper"), ("B", "Lower")]
    # Models, made-up readers and an encoder answer it.
    synthesize(bench, tmp_path)
    words = [f"data={atlas_file}", "network=pixels", f"out={tmp_path / 'answers' / 'encoder'}"]
    answer_with_encoder(find_benchmark("gi_bench_6"), bench, load_config(EncoderConfig, None, words))
    answers = [tmp_path / "answers" / name for name in ("perfect", "shifted", "encoder")]
    results = score_questions(bench, answers, tmp_path / "out", 50, f"people={tmp_path / 'people'}")
    rows = {row.name: row for row in results.full.rows}
    assert rows["perfect"].value("q6") == rows["perfect"].value("q6_f1") == 1
    assert rows["pixels (linear head)"].metrics["q6"].value > 0.6
    assert results.human is not None
    assert rows["perfect"].statuses["Q6"]["ok"] == len([item for item in added if item.entity != "none"])
    assert results.human.rows[0].against["junior"]["q6"].n > 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("Q6 tract") >= 4 and "Q6 F1" in page and ">tract<" in page
    summary = (tmp_path / "out" / "summary.csv").read_text(encoding="utf-8")
    assert ",q6_f1," in summary


def test_texts_of_a_new_type_have_references_and_ratings(
    declared: None, atlas_file: Path, synthetic_corpus: Path, tmp_path: Path
) -> None:
    """A benchmark of one text and one choice: references are read by its own code."""
    from panendofm.vqa.bench.lesion_builder import ask_diagnosis, ask_text

    questions = (
        LesionQuestion(
            "D", "diagnosis", wordings=("What is it?",), make=ask_diagnosis, metrics=(macro_accuracy("d", "D"),)
        ),
        LesionQuestion("W", "why", TEXT, wordings=("Why?",), make=ask_text, metrics=(mean("w", "Why", 5),)),
    )
    rubric = find_benchmark("gi_bench").rubric
    board = QuestionLeaderboard(rank_by="d")
    declare(Benchmark("why", "Why", questions, LesionBuilder, examples_of_lesions, board, rubric=rubric))
    references = tmp_path / "references.jsonl"
    from panendofm.atlas.build import load_atlas

    lines = [
        json.dumps({"id": row.sha256, "w": f"Because of {row.own_labels[0]}."}) for row in load_atlas(atlas_file).rows
    ]
    references.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = [f"data={atlas_file}", f"out={tmp_path / 'bench'}", f"references={references}", "benchmark=why"]
    build_bench(load_config(BuildConfig, Path(__file__).with_name("gi_synthetic.yaml"), words))
    bench = read_bench(tmp_path / "bench")
    texts = [item for item in bench.items if item.subtask == "W"]
    assert texts and all(item.reference.startswith("Because of") and item.kind == "text" for item in texts)
    write_reader(tmp_path / "people", bench, "junior-1", "junior", 1.0)
    folder = write_contestant(tmp_path / "perfect", bench)
    row = score_questions(bench, [folder], tmp_path / "out", 20, f"people={tmp_path / 'people'}").full.rows[0]
    assert (
        row.value("d") == 1
        and "w" not in row.metrics
        and row.texts["W"].n == len([t for t in texts if t.entity != "none"])
    )
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Where errors begin" not in page and "Published" not in page


# ------------------------------------------------------------------------------------------ what may know names


def test_an_unknown_benchmark_and_unknown_tasks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="did you mean 'endobench'"):
        load_config(BuildConfig, None, ["data=x", "out=y", "benchmark=endobenhc"])
    load_config(BuildConfig, None, ["data=x", "out=y", "benchmark=gi_bench", "lesions.texts.q44=Why?"])
    assert "lesions.texts: nothing is worded by 'q44'" in capsys.readouterr().out
    with pytest.raises(UserError, match="there is no 'Q9'"):
        load_config(BuildConfig, None, ["data=x", "out=y", "benchmark=gi_bench", "tasks=[Q9]"])


def test_keys_under_their_earlier_names_are_read_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    old = ["profile=gi_bench", "weights=pixels", "pictures.crop=false", "lesions.q3_options=region", "device=null"]
    config = load_config(BuildConfig, None, ["data=x", "out=y", *old])
    assert (config.benchmark, config.network, config.images.crop) == ("gi_bench", "pixels", False)
    assert config.lesions.diagnosis_options == "region" and config.device is None
    said = capsys.readouterr().out
    assert all(f"'{name}' is called" in said for name in ("profile", "weights", "pictures", "lesions.q3_options"))


def test_nothing_but_declarations_knows_a_benchmark_or_a_question_type() -> None:
    """A name that is compared elsewhere would have to be changed with the declaration."""
    names = {find_benchmark(name).name for name in ("endobench", "gi_bench")}
    codes = {question.code for name in names for question in find_benchmark(name).questions}
    codes |= {metric.name for name in names for q in find_benchmark(name).questions for metric in q.metrics}
    allowed = {("bench/bench_folder.py", "endobench"), ("bench/config.py", "endobench"), ("bench/config.py", "LS")}
    offences = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("benchmarks/"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in names | codes and (name, node.value) not in allowed:
                offences.append(f"{name}:{node.lineno}: {node.value!r}")
    assert offences == []


def test_damaged_results_answer_in_one_sentence(tmp_path: Path) -> None:
    from panendofm.vqa.score.by_question.results import read_question_results

    (tmp_path / "results.json").write_text('{"bench": 3}', encoding="utf-8")
    with pytest.raises(UserError, match="results of 'vqa score'"):
        read_question_results(tmp_path)
