"""A bench built from the synthetic corpus: what is in it, and that a second build is the same."""

from __future__ import annotations

import filecmp
import re
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
from vqa_benches import build_settings

from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.localization import corner_iou
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.build import build_bench
from panendofm.vqa.bench.entity_builder import declared_templates
from panendofm.vqa.bench.images.draw import COLORS
from panendofm.vqa.bench.questions.vocabulary import load_vocabulary
from panendofm.vqa.benchmark import find_benchmark


def test_tasks_and_balanced_letters(bench: Bench) -> None:
    tasks = set(bench.manifest.counts["task"])
    assert {"LI", "OI", "LT", "MO", "VG", "RS", "RR"} <= tasks
    assert {"RR_box", "RR_contour", "RR_multi", "RR_coordinate"} <= set(bench.manifest.counts["subtask"])
    letters: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for item in bench.items:
        letters[(item.task, len(item.options))][item.answer] += 1
    for (task, options), counts in letters.items():
        values = [counts["ABCDEF"[place]] for place in range(options)]
        assert max(values) - min(values) <= 1, (task, counts)
    assert len(bench.by_id) == len(bench.items)


def test_colors_say_nothing(bench: Bench) -> None:
    chosen = Counter(item.answer_text for item in bench.items if item.subtask == "RS")
    assert set(chosen) <= {"Red", "Green", "Blue", "Yellow"}
    assert max(chosen.values()) - min(chosen.values()) <= 1


def test_a_second_build_has_the_same_bytes(
    bench: Bench, atlas_file: Path, synthetic_corpus: Path, tmp_path: Path
) -> None:
    # Rows in another order: files may be found in any.
    table = pq.read_table(atlas_file)
    order = np.random.default_rng(3).permutation(len(table))
    pq.write_table(table.take(order), tmp_path / "shuffled.parquet")
    build_bench(build_settings(tmp_path / "shuffled.parquet", synthetic_corpus, tmp_path / "again"))
    first = sorted(p.relative_to(bench.folder) for p in bench.folder.rglob("*") if p.is_file())
    second = sorted(p.relative_to(tmp_path / "again") for p in (tmp_path / "again").rglob("*") if p.is_file())
    assert first == second
    _, different, failed = filecmp.cmpfiles(bench.folder, tmp_path / "again", [str(p) for p in first], shallow=False)
    assert not different and not failed
    # The list of regions is half of the questions: another seed asks other ones.
    assert str(tmp_path) not in (tmp_path / "again" / "manifest.json").read_text(encoding="utf-8")


def test_grounding_boxes_are_where_the_truth_is(bench: Bench, synthetic_corpus: Path) -> None:
    grounding = [item for item in bench.items if item.subtask == "VG"]
    assert len(grounding) >= 10
    for item in grounding:
        boxes = [[int(v) for v in re.findall(r"\d+", option)] for option in item.options]
        truth = boxes["ABCD".index(item.answer)]
        assert tuple(truth) == item.regions[0].box and item.regions[0].target
        others = [box for box in boxes if box != truth]
        assert corner_iou([truth], others).max() <= 0.1
        overlaps = corner_iou(others, others) - np.eye(3)
        assert overlaps.max() <= 0.2
        for box in others:
            for side in (0, 1):
                assert 0.79 <= (box[side + 2] - box[side]) / (truth[side + 2] - truth[side]) <= 1.26
        assert f"{item.width} pixels wide" in item.question
        image = cv2.imread(str(bench.folder / item.image))
        assert image.shape[:2] == (item.height, item.width)
        for box in others:
            lit = image[box[1] : box[3], box[0] : box[2]].max(axis=2) > 8
            assert lit.mean() > 0.85  # not on the black border


def test_marks_are_drawn_around_the_regions_in_their_colors(bench: Bench) -> None:
    for item in [i for i in bench.items if i.subtask in ("RS", "RR_box")][:40]:
        assert item.image.endswith(".png")
        image = cv2.cvtColor(cv2.imread(str(bench.folder / item.image)), cv2.COLOR_BGR2RGB)
        asked = item.regions[0]
        color = np.array(COLORS[asked.color])
        x1, y1, x2, y2 = asked.box
        inside = (image[y1:y2, x1:x2] == color).all(axis=2)
        if item.subtask == "RR_box":
            assert not inside.any()
        around = np.zeros(image.shape[:2], bool)
        around[max(0, y1 - 4) : y2 + 4, max(0, x1 - 4) : x2 + 4] = True
        around[y1:y2, x1:x2] = False
        drawn = (image == color).all(axis=2)
        assert drawn[around].sum() >= 0.3 * (x2 - x1 + y2 - y1)
        if item.subtask == "RS":
            assert asked.color.capitalize() == item.answer_text


def test_nothing_is_left_outside_the_field_of_view(bench: Bench) -> None:
    """Dates and names stand there."""
    item = next(i for i in bench.items if i.subtask == "OI")
    whole = [cv2.imread(str(bench.folder / i.image)) for i in bench.items if i.subtask == "OI"]
    assert item.image.endswith(".jpg")
    corners = np.array([image[:3, :3].mean() for image in whole])
    assert (corners < 12).mean() > 0.7  # octagons and circles; rectangles fill their corners


def test_wordings_never_name_answer_dataset_or_scene(bench: Bench) -> None:
    declared = declared_templates(find_benchmark("endobench")).texts
    texts = [wording for wordings in declared.values() for wording in wordings]
    assert all(len(set(wordings)) >= 5 for wordings in declared.values())
    for word in ("kvasir", "colonoscopy", "gastroscopy", "capsule", "surgery", "endobench", "sun", "cholec"):
        assert not any(re.search(rf"\b{word}", text, re.IGNORECASE) for text in texts), word
    vocabulary = load_vocabulary()
    for item in bench.items:
        if item.subtask not in ("VG", "RS"):
            name = vocabulary.name(item.entity)
            assert not re.search(rf"\b{re.escape(name)}\b", item.question, re.IGNORECASE), item


def test_a_review_is_applied(bench: Bench, atlas_file: Path, synthetic_corpus: Path, tmp_path: Path) -> None:
    drop, fix, split = bench.items[0], bench.items[1], bench.items[2]
    other = "B" if fix.answer == "A" else "A"
    lines = ["id,decision,answer,note,reviewer", f"{drop.id},drop,,blurred,r1", f"{fix.id},fix,{other},,r1"]
    lines += [f"{split.id},drop,,,r1", f"{split.id},keep,,,r2"]
    review = tmp_path / "review.csv"
    review.write_text("\n".join(lines) + "\n", encoding="utf-8")
    only = f"tasks=[{drop.subtask}]"
    build_bench(build_settings(atlas_file, synthetic_corpus, tmp_path / "reviewed", only, f"review={review}"))
    made = read_bench(tmp_path / "reviewed")
    assert drop.id not in made.by_id and made.by_id[fix.id].answer == other
    assert made.by_id[split.id] == replace(split, image=made.by_id[split.id].image)
    assert made.manifest.reviewed == 3
    assert made.manifest.review is not None
    assert made.manifest.review.disagreements == [split.id]
    review.write_text(lines[0] + f"\n{drop.id},perhaps,,,r1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"review\.csv, line 2"):
        build_bench(build_settings(atlas_file, synthetic_corpus, tmp_path / "x", only, f"review={review}"))
    assert not (tmp_path / "x").exists()


def test_a_changed_bench_is_refused(bench: Bench, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bench.folder, copy)
    name = bench.items[0].image
    (copy / name).write_bytes(b"no image")
    read_bench(copy)
    with pytest.raises(UserError, match="was changed"):
        read_bench(copy, verify=True)
    (copy / "items.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"items\.parquet"):
        read_bench(copy)
    with pytest.raises(UserError, match="no bench"):
        read_bench(tmp_path)
