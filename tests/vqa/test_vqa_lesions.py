"""Five questions about one lesion: the bench, answer files written from the truth, people, ratings and the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_server import chat_server
from vqa_answers import (
    no_box,
    permille_box,
    reversed_box,
    write_contestant,
    write_reader,
)
from vqa_scores import score_questions

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import read_answer_set
from panendofm.vqa.encoder import answer_with_encoder
from panendofm.vqa.people.config import JudgeConfig
from panendofm.vqa.people.judge import judge_prompt, judge_texts, read_rating
from panendofm.vqa.people.ratings import read_ratings, texts_to_rate, without_disclaimer
from panendofm.vqa.people.readers import ReaderFile, check_code
from panendofm.vqa.score.by_question.texts import mentions, named_lesions
from panendofm.vqa.score.config import EncoderConfig
from panendofm.vqa.synthesize import right_reply as true_box
from panendofm.vqa.synthesize import shifted_reply as shifted_box

GI_BENCH = find_benchmark("gi_bench")
RUBRIC = GI_BENCH.rubric
DIMENSIONS = RUBRIC.names
CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "vqa"


def test_what_is_asked(lesion_bench: Bench) -> None:
    counts = lesion_bench.manifest.counts
    assert counts["task"]["Q1"] == counts["task"]["Q3"] == lesion_bench.manifest.images
    by_class = {(item.entity, item.task) for item in lesion_bench.items}
    assert ("Colon polyp", "Q2") in by_class and ("none", "Q2") in by_class
    assert ("Esophagitis", "Q2") not in by_class  # nobody has drawn its boxes
    for item in lesion_bench.items:
        if item.task == "Q1":
            assert item.options == ("Esophagus", "Stomach", "Duodenum", "Colorectum")
        if item.task == "Q3":
            assert item.options[-1] == "No lesion" and len(item.options) == 6
            assert item.answer_text == ("No lesion" if item.entity == "none" else item.entity)
        if item.task == "Q2":
            assert f"{item.width} pixels wide" in item.question
    human = {item.sha256: item for item in lesion_bench.items if item.human}
    per_class: dict[str, set[str]] = {}
    for sha256, item in human.items():
        per_class.setdefault(item.entity, set()).add(sha256)
    assert {len(images) for images in per_class.values()} == {2}
    assert len({item.group for item in human.values()}) == len(human)


def test_profiles_name_the_same_lesions() -> None:
    from panendofm.atlas.taxonomy import load_taxonomy
    from panendofm.vqa.bench.config import BuildConfig

    profiles = [
        load_config(BuildConfig, CONFIGS / f"gi_bench.{language}.yaml", ["data=x", "out=y"]).lesions
        for language in ("en", "zh")
    ]
    assert [len(p.classes) for p in profiles] == [20, 20]
    assert [(c.site, c.findings) for c in profiles[0].classes] == [(c.site, c.findings) for c in profiles[1].classes]
    taxonomy = load_taxonomy()
    for lesion in profiles[0].classes:
        for name in lesion.findings:
            finding, _, grade = name.partition("/")
            assert finding in taxonomy.findings, name
            assert not grade or grade in taxonomy.findings[finding].grades, name


def test_answer_files_written_from_the_truth(
    lesion_bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boxes = {"perfect": true_box, "shifted": shifted_box, "reversed": reversed_box, "none": no_box}
    boxes["permille"] = permille_box
    folders = [write_contestant(tmp_path / name, lesion_bench, box) for name, box in boxes.items()]
    results = score_questions(lesion_bench, folders, tmp_path / "out", 100)
    rows = {row.name: row for row in results.full.rows}
    assert rows["perfect"].value("q2") == 1 and rows["perfect"].value("q2_recall_0_75") == 1
    assert rows["shifted"].value("q2") == pytest.approx(1 / 3, abs=0.01)
    assert rows["shifted"].value("q2_recall_0_5") == 0
    assert rows["reversed"].value("q2") == rows["none"].value("q2") == 0
    assert rows["reversed"].statuses["Q2"]["invalid_box"] == rows["none"].statuses["Q2"]["none"] > 0
    assert rows["permille"].boxes["Q2"].looks_like == "permille" and rows["permille"].metrics["q2"].value < 0.5
    assert "permille: replies look like permille" in capsys.readouterr().out
    assert all(row.boxes["Q2"].looks_like is None for name, row in rows.items() if name != "permille")
    for row in rows.values():
        assert {row.value(name) for name in ("q1", "q3", "q3_macro_f1", "q1_region_macro_f1")} == {1}
        published = row.plain["q1_f1_published"]
        assert published.ceiling is not None and published.value == published.ceiling < 1
        assert row.boxes["Q2"].specificity == 1
    assert [(step.given, step.share) for step in rows["perfect"].chain][2] == (["Q1", "Q2"], 1)
    # The references name the lesion, and no other one; none of them names the site.
    said = rows["perfect"].consistency
    assert said is not None and said.names_the_chosen_lesion == 1
    assert said.names_a_lesion_that_is_not_there == 0
    assert said.names_the_chosen_site == 0
    assert rows["none"].chain[2].n == 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "published, other images" in page and str(tmp_path) not in page and "http://" not in page


def test_published_rows_are_those_of_the_paper(golden: Path) -> None:
    true = json.loads((golden / "metrics_gibench.json").read_text(encoding="utf-8"))["published"]
    valid = {name.lower(): count for name, count in true["q2_images_with_a_valid_box_of_947"].items()}
    for part, table, count in zip(("full_set_947", "subset_60"), GI_BENCH.published.tables, (12, 14), strict=False):
        assert [row.name for row in table.rows] == [row["model"] for row in true[part]] and len(table.rows) == count
        for mine, row in zip(table.rows, true[part], strict=True):
            values = dict(zip(table.columns, mine.values, strict=True))
            boxes = values.pop("valid_boxes", None)
            assert boxes is None or round(boxes * 947, 2) == valid[mine.name.lower()]
            assert values.items() <= row.items(), mine


def test_refusals_count_and_complete_cases_stand_beside(lesion_bench: Bench, tmp_path: Path) -> None:
    shy = {item.sha256 for item in lesion_bench.items if item.entity == "Colon polyp"}

    def letter(item: Item) -> str:
        return "I'm sorry, I can't help with that." if item.sha256 in shy else item.answer

    folders = [
        write_contestant(tmp_path / "shy", lesion_bench, letter=letter),
        write_contestant(tmp_path / "bold", lesion_bench),
    ]
    results = score_questions(lesion_bench, folders, tmp_path / "out", 0, "complete_cases=true")
    rows = {row.name: row for row in results.full.rows}
    assert rows["shy"].value("q3") == pytest.approx(4 / 5) and rows["bold"].value("q3") == 1
    assert rows["shy"].answer_rate["Q3"] == pytest.approx(1 - len(shy) / 25)
    assert results.complete_cases is not None
    beside = {row.name: row for row in results.complete_cases.rows}
    assert beside["shy"].value("q3") == 1 and results.complete_cases.images < results.full.images


def test_people_and_models_in_one_table(lesion_bench: Bench, tmp_path: Path) -> None:
    people = tmp_path / "people"
    for reader, share in (("junior-1", 0.9), ("junior-2", 0.8)):
        write_reader(people, lesion_bench, reader, "junior", share)
    write_reader(people, lesion_bench, "trainee-1", "trainee", 0.5)
    folders = [
        write_contestant(tmp_path / "perfect", lesion_bench),
        write_contestant(tmp_path / "wrong", lesion_bench, no_box, lambda item: "A" if item.answer != "A" else "B"),
    ]
    results = score_questions(lesion_bench, folders, tmp_path / "out", 100, f"people={people}")
    assert results.human is not None
    groups = {group.name: group for group in results.human.groups}
    assert groups["junior"].readers == 2 and groups["trainee"].readers == 1
    single = {row.name: row for row in results.human.rows}
    mean = np.mean([single[name].metrics["q3"].value for name in ("junior-1", "junior-2")])
    assert groups["junior"].value("q3") == pytest.approx(mean)
    # Five classes allow no smaller p than 2 / 2^5.
    test = single["wrong"].against["junior"]["q1"]
    assert test.p is not None and test.p_holm is not None
    assert test.p == pytest.approx(2 / 32) and test.p_holm >= test.p
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "junior (2 readers)" in page and "One reader alone: trainee" in page
    file = people / "junior-1.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"seconds": 5', '"seconds": 4', 1), encoding="utf-8")
    with pytest.raises(UserError, match="changed after it was locked"):
        score_questions(lesion_bench, folders, tmp_path / "out", 100, f"people={people}")


def test_unfinished_exams_and_names_are_refused(lesion_bench: Bench, tmp_path: Path) -> None:
    people = tmp_path / "people"
    write_reader(people, lesion_bench, "junior-1", "junior", 0.9, lock=False)
    folder = write_contestant(tmp_path / "perfect", lesion_bench)
    with pytest.raises(UserError, match="isn't finished"):
        score_questions(lesion_bench, [folder], tmp_path / "out", 0, f"people={people}")
    for name in ("Ada Lovelace", "../x", ""):
        with pytest.raises(UserError, match="no name"):
            check_code(name, "reader")
    with pytest.raises(UserError, match="is in the group junior"):
        ReaderFile(people, "junior-1").open("trainee", lesion_bench)


@pytest.mark.slow
def test_our_encoder_finds_and_names_lesions(
    lesion_bench: Bench, atlas_file: Path, synthetic_corpus: Path, tmp_path: Path
) -> None:
    words = [f"data={atlas_file}", f"regions={synthetic_corpus / 'regions.jsonl'}", "network=pixels"]
    config = load_config(EncoderConfig, None, [*words, f"out={tmp_path / 'encoder'}"])
    answer_with_encoder(GI_BENCH, lesion_bench, config)
    row = score_questions(lesion_bench, [tmp_path / "encoder"], tmp_path / "out", 50).full.rows[0]
    assert row.metrics["q1"].value > 0.7 and row.metrics["q3"].value > 0.5 and row.metrics["q2"].value > 0.2
    assert "q4" not in row.metrics


# ------------------------------------------------------------------------------------------ ratings and the judge

GOOD = json.dumps(dict.fromkeys(DIMENSIONS, 4))


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (GOOD, None),
        (f"```json\n{GOOD}\n```", None),
        (json.dumps({"language": 4}), "lacks a dimension"),
        (GOOD.replace("4", "6", 1), "from 1 to 5"),
        (GOOD.replace("4", "0", 1), "from 1 to 5"),
        (GOOD.replace("4", "4.5", 1), "whole number"),
        ("The text is good.", "no JSON"),
        ("{broken", "no valid JSON"),
    ],
)
def test_ratings_of_a_judge(reply: str, says: str | None) -> None:
    if says is None:
        assert read_rating(reply, RUBRIC) == dict.fromkeys(DIMENSIONS, 4)
    else:
        with pytest.raises(UserError, match=says):
            read_rating(reply, RUBRIC)


def test_the_judge(lesion_bench: Bench, tmp_path: Path) -> None:
    folder = write_contestant(tmp_path / "perfect", lesion_bench)
    sets = [read_answer_set(folder, lesion_bench)]
    texts = texts_to_rate(lesion_bench, sets)
    assert len(texts) == sum(item.kind == "text" for item in lesion_bench.items)
    prompt = judge_prompt(texts[0], RUBRIC)
    assert texts[0].item.reference in prompt and "perfect" not in prompt
    calls = {"n": 0}

    def reply(body: dict[str, Any]) -> str:
        calls["n"] += 1
        return {1: "Fine text!", 2: GOOD.replace("4", "9", 1)}.get(calls["n"], GOOD)

    with chat_server(reply=reply) as server:
        words = [f"api.url={server.url}", "api.model=strict-judge", f"ratings={tmp_path / 'ratings'}"]
        judge_texts(lesion_bench, RUBRIC, sets, load_config(JudgeConfig, None, words))
        assert calls["n"] == len(texts) + 2
        judge_texts(lesion_bench, RUBRIC, sets, load_config(JudgeConfig, None, words))  # nothing is left to rate
        assert calls["n"] == len(texts) + 2
        own = [f"api.url={server.url}", "api.model=perfect", f"ratings={tmp_path / 'self'}"]
        with pytest.raises(UserError, match="contestant"):
            judge_texts(lesion_bench, RUBRIC, sets, load_config(JudgeConfig, None, own))
        judge_texts(lesion_bench, RUBRIC, sets, load_config(JudgeConfig, None, [*own, "allow_self=true"]))
        said = score_questions(lesion_bench, [folder], tmp_path / "o", 0, f"ratings={tmp_path / 'self'}")
        assert said.judges_in_the_table == ["judge:perfect"]
        assert "judge:perfect is a contestant itself" in (tmp_path / "o" / "index.html").read_text(encoding="utf-8")
        server.reply = lambda body: "no"
        bad = [f"api.url={server.url}", "api.model=mute", f"ratings={tmp_path / 'mute'}"]
        judge_texts(lesion_bench, RUBRIC, sets, load_config(JudgeConfig, None, [*bad, "human_subset=true"]))
    assert read_ratings(tmp_path / "mute", RUBRIC) == []
    ratings = read_ratings(tmp_path / "ratings", RUBRIC)
    assert len(ratings) == len(texts) and {r.rater for r in ratings} == {"judge:strict-judge"}
    # An expert who is a little harsher, so that agreement can be told.
    lines = []
    for number, text in enumerate(texts[::3][:18]):
        values = dict.fromkeys(DIMENSIONS, 4 - number % 2)
        lines.append(json.dumps({"answer": text.key, "rater": "expert-1", **values}) + "\n")
    file = tmp_path / "ratings" / "expert-1.jsonl"
    file.write_text("".join(lines), encoding="utf-8")
    results = score_questions(lesion_bench, [folder], tmp_path / "out", 20, f"ratings={tmp_path / 'ratings'}")
    assert results.rated_by == "experts"
    assert results.agreement["safety"]["judge:strict-judge"].bias == pytest.approx(0.5)
    row = results.full.rows[0]
    assert row.metrics["q4"].value + row.metrics["q5"].value == pytest.approx(7, abs=0.5)
    for line, says in ((lines[0], "before"), (lines[0].replace(": 4", ": 6", 1), "from 1 to 5")):
        file.write_text("".join([*lines[1:], lines[0], line]), encoding="utf-8")
        with pytest.raises(UserError, match=says):
            read_ratings(tmp_path / "ratings", RUBRIC)


def test_the_closing_line_is_cut_off(lesion_bench: Bench) -> None:
    assert without_disclaimer("A flat polyp. For research only.", lesion_bench) == "A flat polyp."
    assert without_disclaimer("A flat polyp.", lesion_bench) == "A flat polyp."


def test_lesions_are_named_in_words_of_their_own() -> None:
    english = {"Polyp": {"polyp", "colonic polyp"}, "Lifted polyp": {"lifted polyp"}, "Ulcer": {"ulcer"}}
    assert named_lesions("Two polyps, one of them a lifted polyp.", english) == {"Polyp", "Lifted polyp"}
    assert named_lesions("A lifted polyp; ulceration is absent.", english) == {"Lifted polyp"}
    # Chinese sets no spaces: the words stand inside the sentence, and the longer one hides the shorter.
    chinese = {"早期胃癌": {"早期胃癌"}, "胃癌": {"胃癌"}, "憩室": {"憩室"}}
    assert named_lesions("胃窦见早期胃癌样病变，边界清晰。", chinese) == {"早期胃癌"}
    assert mentions("病变位于食管中段。", {"食管", "esophagus"}) and not mentions("病变位于胃窦。", {"食管"})
