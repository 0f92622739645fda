"""Conversations to train on: planted leaks are found, counted and kept out; other tools read the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from vqa_benches import build_settings

from panendofm.atlas.build import Atlas, load_atlas, save_atlas
from panendofm.atlas.samples import Row
from panendofm.records.documents import read_document
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import sha256_of
from panendofm.vqa.bench.bench_folder import read_bench
from panendofm.vqa.bench.build import build_bench
from panendofm.vqa.bench.config import InstructConfig
from panendofm.vqa.bench.instruct import ALIKE, EQUAL, GROUP, Certificate, write_instructions

LANDMARKS = ("pylorus", "z-line")


def landmarks(atlas: Atlas) -> list[Row]:
    """Twelve images of each landmark."""
    rows = [row for row in sorted(atlas.rows, key=lambda row: row.path) if row.labels[0].finding in LANDMARKS]
    return [row for name in LANDMARKS for row in [r for r in rows if r.labels[0].finding == name][:12]]


def settings(atlas: Path, corpus: Path, out: Path, *more: str) -> InstructConfig:
    words = [f"data={atlas}", f"regions={corpus / 'regions.jsonl'}", f"out={out}", "tasks=[LI]", *more]
    return load_config(InstructConfig, None, words)


def test_planted_leaks_are_found(atlas_file: Path, synthetic_corpus: Path, tmp_path: Path) -> None:
    atlas = load_atlas(atlas_file)
    rows = landmarks(atlas)
    save_atlas(replace(atlas, rows=rows), tmp_path / "atlas.parquet")
    build_bench(build_settings(tmp_path / "atlas.parquet", synthetic_corpus, tmp_path / "bench", "tasks=[LI]", "cap=2"))
    bench = read_bench(tmp_path / "bench")
    asked = {item.sha256 for item in bench.items}
    first = next(row for row in rows if row.sha256 in asked)
    free = [row for row in rows if row.sha256 not in asked]
    # A copy that no checksum tells: smaller, and encoded anew. And an image of a patient who is in the bench.
    copy = tmp_path / "copy.jpg"
    with Image.open(first.path) as image:
        image.resize((image.width * 9 // 10, image.height * 9 // 10)).save(copy, quality=70)
    planted = replace(first, path=str(copy), sha256=sha256_of(copy), content=10**9, patient=None, video=None)
    related = replace(free[0], patient="p1")
    changed = [replace(row, patient="p1") if row is first else related if row is free[0] else row for row in rows]
    save_atlas(replace(atlas, rows=[*changed, planted]), tmp_path / "pool.parquet")
    guarded = tmp_path / "guarded"
    guarded.mkdir()
    (guarded / "x.jpg").write_bytes(Path(free[1].path).read_bytes())
    out = tmp_path / "instruct"
    places = (f"bench=[{tmp_path / 'bench'}]", f"guard=[{guarded}]")
    made = write_instructions(settings(tmp_path / "pool.parquet", synthetic_corpus, out, *places))
    reasons = made.removed_sha256
    assert asked | {free[1].sha256} == set(reasons[EQUAL])
    assert planted.sha256 in reasons[ALIKE] and related.sha256 in reasons[GROUP]
    assert made.removed == {reason: len(own) for reason, own in reasons.items()}
    lines = [json.loads(line) for line in (out / "conversations.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == made.questions == made.by_task["LI"] and made.published == 446_535
    assert made.images == len(rows) + 1 - sum(made.removed.values())  # nothing but these is missing
    assert not {line["group"] for line in lines} & {item.group for item in bench.items}
    certificate = (out / "certificate.json").read_text(encoding="utf-8")
    assert read_document(Certificate, out / "certificate.json", "a certificate") == made
    assert str(tmp_path) not in certificate and Path(first.path).name not in certificate


def test_other_tools_read_it(
    atlas_file: Path, synthetic_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    atlas = load_atlas(atlas_file)
    save_atlas(replace(atlas, rows=landmarks(atlas)), tmp_path / "atlas.parquet")
    guarded = tmp_path / "guarded"
    guarded.mkdir()
    out = tmp_path / "instruct"
    write_instructions(settings(tmp_path / "atlas.parquet", synthetic_corpus, out, f"guard=[{guarded}]"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    found = load_dataset("json", data_files=str(out / "conversations.jsonl"), split="train", cache_dir=str(tmp_path))
    assert len(found) == 24
    human, answer = found[0]["conversations"]
    assert human["from"] == "human" and human["value"].startswith("<image>\n") and "\nA. " in human["value"]
    assert answer["from"] == "gpt" and answer["value"] in human["value"]
    with Image.open(out / found[0]["image"]) as image:
        assert image.width > 100


def test_what_stays_out_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must stay out"):
        settings(tmp_path / "atlas.parquet", tmp_path, tmp_path / "out")
