"""The synthetic corpus: same bytes every time, the layouts of the real corpora, and a truth that is true."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from panendofm.runtime.errors import UserError
from panendofm.synthetic import SIZES, synthesize
from panendofm.synthetic.labeled import make_labeled, plan_labeled
from panendofm.synthetic.plan import plan_sources
from panendofm.synthetic.planted import add_leaks, make_copy, make_defect, plan_copies, plan_defects
from panendofm.synthetic.scene.place import KVASIR_CLASSES
from panendofm.synthetic.segmented import make_segmented, plan_segmented
from panendofm.synthetic.sources import make_source
from panendofm.synthetic.truth import Truth, read_truth


@pytest.fixture(scope="session")
def truth(synthetic_corpus: Path) -> Truth:
    return read_truth(synthetic_corpus)


def checksums(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_each_source_alone_in_one_process_gives_the_same_bytes(synthetic_corpus: Path, tmp_path: Path) -> None:
    """The corpus was made by several processes; here a sample of every kind of file is made again, in another order."""
    labeled = plan_labeled("small", 0)
    plans = add_leaks(plan_sources("small", 0), labeled, 0)
    wanted = {
        "ers/0003/samples/frames",  # png with a leak
        "ldpolypvideo/TrainValid/Images/2",  # jpg with a leak
        "ri-vce/s002/1_esophagus",
        "endofm-pretrain/Renji-colonoscope/00001.mp4",  # mp4v with a leak and a frozen stretch
        "colonoscopicds/hyperplasic/hyperplasic_01_NBI.mp4",  # H.264 with a variable frame rate
        "ldpolypvideo/Videos/1.avi",  # mjpeg, the origin of a copy
    }
    chosen = [plan for plan in plans if plan.path in wanted]
    assert len(chosen) == len(wanted)
    leaked = {leak.evaluation_image for plan in chosen for leak in plan.leaks}
    for plan in reversed(labeled[::40] + [p for p in labeled if leaked.intersection(p.paths)]):
        make_labeled(tmp_path, plan, 0)
    for segmented in reversed(plan_segmented("small", 0)[::20]):
        make_segmented(tmp_path, segmented, 0)
    for source in reversed(chosen):
        make_source(tmp_path, source, 0)
    for copy in plan_copies(plans, "small"):
        if copy.of.path in wanted:
            make_copy(tmp_path, copy)
    for defect in plan_defects(plans, "small"):
        if defect.what != "truncated":
            make_defect(tmp_path, defect, 0)
    again, first = checksums(tmp_path), checksums(synthetic_corpus)
    assert len(again) > 90
    assert {name for name in again if again[name] != first[name]} == set()


@pytest.mark.slow
def test_whole_tree_is_the_same_for_one_process_and_for_two(tmp_path: Path) -> None:
    for name, processes in (("one", 1), ("two", 2)):
        synthesize(tmp_path / name, "small", seed=3, processes=processes)
    assert checksums(tmp_path / "one") == checksums(tmp_path / "two")


def test_another_seed_gives_other_images(synthetic_corpus: Path, tmp_path: Path) -> None:
    for plan, other in list(zip(plan_labeled("small", 0), plan_labeled("small", 1), strict=True))[:3]:
        make_labeled(tmp_path, other, 1)
        assert plan.paths[0] != other.paths[0]
        images = [
            cv2.resize(cv2.imread(str(p)), (32, 32))
            for p in (synthetic_corpus / plan.paths[0], tmp_path / other.paths[0])
        ]
        assert np.abs(images[0].astype(int) - images[1]).mean() > 5


LAYOUTS = {
    "colonoscopicds": r"(adenoma|hyperplasic|serrated)/\w+_\d\d_(WL|NBI)\.mp4",
    "ldpolypvideo": r"Videos/\d+\.avi|(TrainValid|Test)/(Images/\d+/\d{4}\.jpg|Annotations/\d+/\d{4}\.txt)",
    "ers": r"\d{4}/(samples|seq_\d\d)/(frames/\d{6}\.png|labels/\d{6}(_[a-z]\d\d)+\.png)",
    "ri-vce": r"s\d{3}/(1_esophagus|2_stomach|3_small_bowel|4_colon)/image-\d{5}\.png",
    "endofm-pretrain": r"train\.csv|[A-Za-z-]+/\d{5}\.mp4",
    "Kvasir-SEG": r"(images|masks)/cju[0-9a-f]{22}\.jpg|kavsir_bboxes\.json",
    "kvasir-dataset-v2": rf"({'|'.join(KVASIR_CLASSES)})/[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\.jpg",
}


def test_layouts_are_those_of_the_real_corpora(synthetic_corpus: Path) -> None:
    files = [path.relative_to(synthetic_corpus) for path in synthetic_corpus.rglob("*") if path.is_file()]
    corpora: dict[str, list[str]] = {name: [] for name in LAYOUTS}
    for path in files:
        if len(path.parts) > 1:
            corpora[path.parts[0]].append("/".join(path.parts[1:]))
    for name, pattern in LAYOUTS.items():
        assert len(corpora[name]) > 5
        assert [path for path in corpora[name] if not re.fullmatch(pattern, path)] == []
    listed = (synthetic_corpus / "endofm-pretrain" / "train.csv").read_text().splitlines()
    assert listed == [f"{p},-1" for p in sorted(corpora["endofm-pretrain"]) if p.endswith(".mp4")]
    assert {str(p) for p in files if len(p.parts) == 1} == {"truth.json", "regions.jsonl", "boxes.csv", "SHA256SUMS"}


def test_all_kinds_of_scene_are_in_the_pretraining_videos(truth: Truth) -> None:
    seen = {span.what for source in truth.sources if source.media == "video" for span in source.scenes}
    assert seen >= set(KVASIR_CLASSES)


def test_the_demo_has_the_sources_of_small_and_twice_its_labeled_images() -> None:
    assert plan_sources("demo", 0) == plan_sources("small", 0)
    small, demo = ([p.label for p in plan_labeled(size, 0) for _ in p.paths] for size in ("small", "demo"))
    assert len(small) == 320 and sorted(demo) == sorted(2 * small)


def test_labeled_set_has_forty_of_each_class_and_near_identical_groups(synthetic_corpus: Path, truth: Truth) -> None:
    for label in KVASIR_CLASSES:
        assert sum(image.label == label for image in truth.evaluation) == 40
    grouped: dict[int, list[str]] = {}
    for image in truth.evaluation:
        assert (synthetic_corpus / image.path).is_file()
        if image.group is not None:
            grouped.setdefault(image.group, []).append(image.path)
    assert {len(paths) for paths in grouped.values()} == {2, 3}
    for paths in list(grouped.values())[::6]:
        contents = {(synthetic_corpus / path).read_bytes() for path in paths}
        assert len(contents) == len(paths)
        assert correlation(read_gray(synthetic_corpus / paths[0]), read_gray(synthetic_corpus / paths[1])) > 0.9


def read_gray(path: Path) -> NDArray[np.float32]:
    image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    return cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA).astype(np.float32)


def correlation(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def raw_pixel_top_1(corpus: Path, truth: Truth, neighbors: int = 20, temperature: float = 0.07) -> float:
    """Leave-one-out kNN on 16×16 RGB pixels, L2-normalized; frames of one's own group don't vote."""
    labels = np.array([KVASIR_CLASSES.index(image.label) for image in truth.evaluation])
    groups = np.array([-1 - i if e.group is None else e.group for i, e in enumerate(truth.evaluation)])
    images = [
        cv2.resize(cv2.imread(str(corpus / e.path)), (16, 16), interpolation=cv2.INTER_AREA) for e in truth.evaluation
    ]
    features = np.stack(images).reshape(len(images), -1).astype(np.float64)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    similarity = features @ features.T
    similarity[groups[:, None] == groups[None, :]] = -np.inf
    nearest = np.argsort(-similarity, axis=1)[:, :neighbors]
    weights = np.exp(np.take_along_axis(similarity, nearest, axis=1) / temperature)
    votes = np.stack([(weights * (labels[nearest] == c)).sum(axis=1) for c in range(len(KVASIR_CLASSES))], axis=1)
    return float((votes.argmax(axis=1) == labels).mean())


def test_classes_are_neither_trivial_nor_hopeless_for_raw_pixels(synthetic_corpus: Path, truth: Truth) -> None:
    assert 0.30 <= raw_pixel_top_1(synthetic_corpus, truth) <= 0.65


def run_synthesize(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "data_pipeline", "synthesize", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_second_run_does_nothing(synthetic_corpus: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in synthetic_corpus.rglob("*")}
    done = run_synthesize(str(synthetic_corpus))
    assert done.returncode == 0
    assert "nothing to do" in done.stdout
    assert before == {path: path.stat().st_mtime_ns for path in synthetic_corpus.rglob("*")}


def test_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    done = run_synthesize(str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and str(tmp_path) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_folder_with_another_corpus_is_refused(synthetic_corpus: Path) -> None:
    with pytest.raises(UserError, match="seed 0"):
        synthesize(synthetic_corpus, "small", seed=1)


def test_damaged_corpus_is_named(synthetic_corpus: Path, tmp_path: Path) -> None:
    for name in ("truth.json", "SHA256SUMS"):
        (tmp_path / name).write_bytes((synthetic_corpus / name).read_bytes())
    with pytest.raises(UserError, match="missing or was changed"):
        synthesize(tmp_path, "small", seed=0)


def test_unknown_size_is_refused(tmp_path: Path) -> None:
    done = run_synthesize(str(tmp_path / "corpus"), "size=huge")
    assert done.returncode == 2
    assert "huge" in done.stderr and all(name in done.stderr for name in SIZES)
    assert not (tmp_path / "corpus").exists()
