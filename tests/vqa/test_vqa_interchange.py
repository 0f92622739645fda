"""Answer files of VLMEvalKit and lmms-eval: read as these tools write them, and written so that they come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from vqa_answers import write_contestant
from vqa_benches import disc_bench
from vqa_scores import score_choices

from panendofm.runtime.config import load_config
from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_lines
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.config import ExportConfig, ImportConfig
from panendofm.vqa.bench.exports import export_bench
from panendofm.vqa.bench.imports import import_tsv
from panendofm.vqa.client.answers import read_answers
from panendofm.vqa.client.config import ConvertConfig
from panendofm.vqa.client.interchange import convert_answers


@pytest.fixture(scope="module")
def discs(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return disc_bench(tmp_path_factory.mktemp("discs") / "bench", per_color=1)


def convert(bench: Bench, file: Path, out: Path, *more: str) -> None:
    convert_answers(bench, file, load_config(ConvertConfig, None, [f"out={out}", *more]))


def replies(folder: Path) -> dict[str, str]:
    return {answer.id: answer.response for answer in read_answers(folder / "answers.jsonl")}


def test_predictions_of_vlmevalkit(discs: Bench, tmp_path: Path) -> None:
    """Its tables have the columns of the TSV without the image, and prediction; here without our id."""
    lines = ["index\tquestion\tA\tB\tC\tD\tanswer\tprediction"]
    said = ["A", "The answer is (B).", "no idea", "D. yellow"]
    lines += [f"{n}\tq\tred\tgreen\tblue\tyellow\tA\t{reply}" for n, reply in enumerate(said)]
    file = tmp_path / "model_discs.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    convert(discs, file, tmp_path / "answers", "name=model")
    assert replies(tmp_path / "answers") == dict(zip((item.id for item in discs.items), said, strict=True))
    own = score_choices(discs, [tmp_path / "answers"], tmp_path / "out", 0).contestants["model"]
    assert own.all.accuracy == 0.75 and own.statuses["unparsed"] == 1
    rows = [{"index": n, "prediction": reply} for n, reply in enumerate(said)]
    (tmp_path / "m.json").write_text(json.dumps(rows), encoding="utf-8")
    convert(discs, tmp_path / "m.json", tmp_path / "again")
    assert replies(tmp_path / "again") == replies(tmp_path / "answers")


def test_samples_of_lmms_eval(discs: Bench, tmp_path: Path) -> None:
    """In any order; the id in the document counts, else the number."""
    lines = [
        {"doc_id": 9, "doc": {"id": discs.items[3].id}, "resps": [["D"]], "filtered_resps": ["D"], "target": "D"},
        {"doc_id": 0, "doc": {"question": "q"}, "resps": [["it is A"]], "filtered_resps": ["A"], "target": "A"},
        {"doc_id": 1, "doc": {}, "resps": [["B"]], "target": "B"},
        {"doc_id": 2, "doc": {}, "resps": [["C"]], "filtered_resps": [["C"]], "target": "C"},
    ]
    file = tmp_path / "20260101_samples_discs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    convert(discs, file, tmp_path / "answers")
    assert list(replies(tmp_path / "answers").values()) == ["D", "A", "B", "C"]
    results = score_choices(discs, [tmp_path / "answers"], tmp_path / "out", 0)
    assert results.contestants[file.stem].all.accuracy == 1


@pytest.mark.parametrize(("form", "ending"), [("vlmevalkit", "tsv"), ("lmms-eval", "jsonl")])
def test_what_is_written_comes_back(bench: Bench, tmp_path: Path, form: str, ending: str) -> None:
    ours = write_contestant(tmp_path / "ours", bench, letter=lambda item: f"The answer is {item.answer}.\nSure\ttrue")
    file = tmp_path / f"theirs.{ending}"
    convert(bench, ours, file, f"form={form}")
    convert(bench, file, tmp_path / "back")
    back = {id_: " ".join(reply.split()) for id_, reply in replies(tmp_path / "back").items()}
    assert back == {id_: " ".join(reply.split()) for id_, reply in replies(ours).items()}
    if ending == "jsonl":
        assert all(line["accuracy"] == 1 for line in read_json_lines(file))
    else:
        assert {"index", "question", "A", "answer", "prediction"} <= set(read_csv(file, (), delimiter="\t")[0])


def test_an_imported_bench_keeps_its_indexes(discs: Bench, tmp_path: Path) -> None:
    """A published TSV may number its questions from anywhere."""
    export_bench(discs, load_config(ExportConfig, None, [f"out={tmp_path / 'tsv'}", "form=vlmevalkit"]))
    text = (tmp_path / "tsv" / "discs.tsv").read_text(encoding="utf-8").splitlines()
    moved = [text[0], *(f"{int(line.split(chr(9), 1)[0]) + 70}\t{line.split(chr(9), 1)[1]}" for line in text[1:])]
    (tmp_path / "moved.tsv").write_text("\n".join(moved) + "\n", encoding="utf-8")
    import_tsv(tmp_path / "moved.tsv", load_config(ImportConfig, None, [f"out={tmp_path / 'bench'}"]))
    imported = read_bench(tmp_path / "bench")
    rows = "index\tprediction\n" + "".join(f"{70 + n}\t{'ABCD'[n]}\n" for n in range(4))
    (tmp_path / "p.tsv").write_text(rows, encoding="utf-8")
    convert(imported, tmp_path / "p.tsv", tmp_path / "answers")
    assert score_choices(imported, [tmp_path / "answers"], tmp_path / "out", 0).contestants["p"].all.accuracy == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "index\tprediction\n77\tA\n", "has no such question"),
        ("a.tsv", "index\tprediction\n1\tA\n1\tB\n", "two replies"),
        ("a.tsv", "index\treply\n1\tA\n", "prediction"),
        ("a.json", '{"index": 1}', "a list of objects"),
        ("a.jsonl", '{"doc_id": 1}\n', "needs doc_id and a reply"),
        ("a.xlsx", "", "PRED_FORMAT=tsv"),
        ("a.jsonl", "", "holds no reply"),
    ],
)
def test_broken_files_are_one_sentence(discs: Bench, tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        convert(discs, tmp_path / name, tmp_path / "answers")
    assert not (tmp_path / "answers").exists()
