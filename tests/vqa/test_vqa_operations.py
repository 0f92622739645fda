"""Public datasets of operations and capsules, in small copies of their layouts; outlines of several regions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from vqa_benches import build_settings

from panendofm.atlas.build import build_atlas, save_atlas
from panendofm.atlas.datasets.regions import read_regions
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.build import build_bench
from panendofm.vqa.bench.images.draw import COLORS
from panendofm.vqa.bench.operations.source import operation_sources, source_of

SIDE = 224
SURGICAL = "[SP,SS,SA,IC,IP]"


def draw_image(path: Path, seed: int) -> None:
    """Lit and sharp enough to pass every screen, and like no other one."""
    random = np.random.default_rng(seed)
    small = random.integers(60, 220, (28, 28, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), cv2.resize(small, (SIDE, SIDE), interpolation=cv2.INTER_NEAREST))


def mask(path: Path, *boxes: tuple[int, int, int, int], value: int = 255) -> None:
    shape = np.zeros((SIDE, SIDE), np.uint8)
    if path.is_file():
        shape = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    for x1, y1, x2, y2 in boxes:
        cv2.ellipse(shape, ((x1 + x2) // 2, (y1 + y2) // 2), ((x2 - x1) // 2, (y2 - y1) // 2), 0, 0, 360, value, -1)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), shape)


def write_cholec80(folder: Path) -> None:
    phases = ["Preparation", "CalotTriangleDissection", "ClippingCutting", "GallbladderRetraction"]
    tools = ["Grasper", "Bipolar", "Hook", "Scissors", "Clipper", "Irrigator", "SpecimenBag"]
    for video in ("video01", "video02"):
        times = range(0, 200, 25)
        lines = ["Frame\tPhase", *(f"{n}\t{phases[n // 50]}" for n in range(200))]
        (folder / "phase_annotations").mkdir(parents=True, exist_ok=True)
        (folder / "phase_annotations" / f"{video}-phase.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        flags = ["\t".join(["Frame", *tools])]
        flags += ["\t".join([str(n), *(str(int(k <= n // 50)) for k in range(len(tools)))]) for n in times]
        (folder / "tool_annotations").mkdir(exist_ok=True)
        (folder / "tool_annotations" / f"{video}-tool.txt").write_text("\n".join(flags) + "\n", encoding="utf-8")
        for n in times:
            draw_image(folder / "frames" / video / f"{n:06d}.png", hash((video, n)) % 2**32)


def write_endovis17(folder: Path) -> None:
    for number in range(6):
        video = folder / f"instrument_dataset_{number % 2 + 1}"
        name = f"frame{number:03d}.png"
        draw_image(video / "left_frames" / name, 100 + number)
        mask(video / "ground_truth" / "Left_Prograsp_Forceps_labels" / name, (20, 20, 90, 90))
        mask(video / "ground_truth" / "Right_Large_Needle_Driver_labels" / name, *[(120, 110, 200, 200)][: number % 3])
        mask(video / "ground_truth" / "Other_labels" / name, (10, 150, 40, 190))


def write_endovis18(folder: Path) -> None:
    actions = ["Tissue_Manipulation", "Suction", "Idle", "Cutting"]
    for number in range(8):
        name = f"seq_{number % 2 + 1}_frame{number:03d}"
        draw_image(folder / "train" / "images" / f"{name}.png", 200 + number)
        own = folder / "train" / "annotations" / f"{name}.png"
        mask(own, (20, 20, 90, 90), value=1 + number % 4)
        if number % 2:
            mask(own, (120, 110, 200, 200), value=6)
        done = f"<object><name>tool</name><interaction>{actions[number % 4]}</interaction></object>"
        text = f"<annotation>{done}</annotation>"
        place = folder / "train" / "interactions" / f"{name}.xml"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")


def write_psi_ava(folder: Path) -> None:
    steps = ["Idle", "Cut_tissue", "Hold_prostate", "Vascular_control"]
    document: dict[str, list[dict[str, object]]] = {
        "images": [],
        "annotations": [],
        "categories": [{"id": 1, "name": "Suction Instrument"}, {"id": 2, "name": "Clip Applier"}],
        "phases_categories": [{"id": n, "name": f"Phase_{n}"} for n in range(4)],
        "steps_categories": [{"id": n, "name": name} for n, name in enumerate(steps)],
        "actions_categories": [{"id": n, "name": f"Action {n}"} for n in range(4)],
    }
    for number in range(8):
        name = f"CASE00{number % 2 + 1}/{number:05d}.jpg"
        draw_image(folder / "keyframes" / name, 300 + number)
        document["images"].append({"id": number, "file_name": name})
        for place in range(1 + number % 2):
            document["annotations"].append(
                {
                    "image_id": number,
                    "category_id": 1 + place,
                    "bbox": [20 + 100 * place, 30, 70, 80],
                    "phases": number % 4,
                    "steps": number // 2 % 4,
                    "actions": [number // 2 % 4],
                }
            )
    (folder / "annotations").mkdir()
    (folder / "annotations" / "train.json").write_text(json.dumps(document), encoding="utf-8")


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "cholec80": write_cholec80,
    "endovis17": write_endovis17,
    "endovis18": write_endovis18,
    "psi-ava": write_psi_ava,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("operations")
    for name, write in LAYOUTS.items():
        write(base / name)
    return {name: base / name for name in LAYOUTS}


@pytest.fixture(scope="module")
def operations(
    folders: dict[str, Path], atlas_file: Path, synthetic_corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bench:
    out = tmp_path_factory.mktemp("bench") / "operations"
    places = ",".join(str(folder) for folder in folders.values())
    tasks = "tasks=[SP,SS,SA,IC,IP,VG,RS,RR_box,RR_contour,RR_multi_contour]"
    words = [f"operations=[{places}]", tasks, "cap=6", "name=operations"]
    build_bench(build_settings(atlas_file, synthetic_corpus, out, *words))
    return read_bench(out, verify=True)


def test_folders_are_told_apart(folders: dict[str, Path], tmp_path: Path) -> None:
    assert {source_of(folder).name for folder in folders.values()} == set(LAYOUTS)
    assert {source.name for source in operation_sources()} == set(LAYOUTS)
    assert all(source.checked and not source.real_files for source in operation_sources())  # said, not hidden
    with pytest.raises(UserError, match="layout of none of Cholec80"):
        source_of(tmp_path)


def test_what_is_read_of_each_dataset(folders: dict[str, Path]) -> None:
    read = {name: {m.path.stem: m for m in source_of(folder).read(folder)} for name, folder in folders.items()}
    cholec = read["cholec80"]["000125"].annotation
    assert (cholec.phase, cholec.instruments) == ("Clipping and cutting", ("Bipolar", "Grasper", "Hook"))
    pig = read["endovis17"]["frame001"]
    assert pig.annotation.instruments == ("Large Needle Driver", "Prograsp Forceps")
    assert len(pig.regions) == 2 and all(len(region.polygon) > 4 for region in pig.regions)
    x1, y1, x2, y2 = pig.regions[1].box if pig.regions[1].label.finding == "Prograsp Forceps" else pig.regions[0].box
    assert max(abs(x1 - 20), abs(y1 - 20), abs(x2 - 91), abs(y2 - 91)) <= 1
    assert read["endovis17"]["frame000"].annotation.instruments == ("Prograsp Forceps",)  # «Other» has no name
    assert read["endovis18"]["seq_1_frame000"].annotation.action == "Tissue Manipulation"
    assert read["endovis18"]["seq_2_frame001"].annotation.instruments == ("Prograsp Forceps", "Suction Instrument")
    ava = read["psi-ava"]["00002"].annotation
    assert (ava.phase, ava.step, ava.action) == ("Phase 2", "Cut tissue", "Action 1")
    assert read["psi-ava"]["00003"].annotation.action == ""  # two instruments: whose action would it be?
    assert read["psi-ava"]["00003"].regions[1].box == (120, 30, 190, 110)


def test_five_types_of_surgical_questions(operations: Bench) -> None:
    counts = Counter((item.subtask, item.dataset) for item in operations.items)
    for code, dataset in (
        ("SP", "cholec80"), ("IC", "cholec80"), ("IP", "cholec80"), ("SS", "psi-ava"), ("SA", "endovis18"),
        ("SA", "psi-ava"), ("IC", "endovis17"), ("VG", "endovis17"),
    ):  # fmt: skip
        assert counts[code, dataset] > 0, (code, dataset, counts)
    phases = [item for item in operations.items if item.subtask == "SP" and item.dataset == "cholec80"]
    assert all(len(item.options) >= 2 and item.scene == "SE" for item in phases)
    for item in (item for item in operations.items if item.subtask == "SP"):
        own = {"Preparation", "Calot triangle dissection", "Clipping and cutting", "Gallbladder retraction"}
        assert (set(item.options) <= own) == (item.dataset == "cholec80")  # phases of one kind of operation
    assert {item.group for item in phases} == {"cholec80 video01", "cholec80 video02"}
    assert operations.manifest.licenses["cholec80"].startswith("CC BY-NC-SA")
    boxed = next(item for item in operations.items if item.subtask == "RR_box" and item.dataset == "endovis17")
    assert "surgical instrument" in boxed.published  # the paper words these in its own way


def test_outlines_of_several_regions_are_in_the_image(operations: Bench) -> None:
    asked = [item for item in operations.items if item.prompt_kind == "multi_contour"]
    datasets = {item.dataset for item in asked}
    assert datasets & {"endovis17", "endovis18"} and "psi-ava" not in datasets  # that one has boxes alone
    asked = [item for item in asked if item.dataset.startswith("endovis")]
    for item in asked[:3]:
        image = cv2.cvtColor(cv2.imread(str(operations.folder / item.image)), cv2.COLOR_BGR2RGB)
        assert len(item.regions) >= 2 and len({region.color for region in item.regions}) == len(item.regions)
        for region in item.regions:
            line = (image == COLORS[region.color]).all(axis=-1)
            x1, y1, x2, y2 = region.box
            assert line.sum() > 50, region.color
            # An outline, not a box: the corners of the box are free of it.
            corners = [line[y1 : y1 + 6, x1 : x1 + 6], line[y2 - 6 : y2, x2 - 6 : x2]]
            assert not any(corner.any() for corner in corners)
            inside = np.zeros(line.shape, np.uint8)
            cv2.fillPoly(inside, [np.array(region.polygon, np.int32)], 1)
            assert not (line & (inside > 0)).any()  # the line lies around the region


# ------------------------------------------------------------------------------------------ capsules


def test_masks_of_capsule_datasets(tmp_path: Path) -> None:
    bleeding = tmp_path / "WCEBleedGen"
    for number in (1, 2):
        draw_image(bleeding / "bleeding" / "Images" / f"img- ({number}).png", 400 + number)
        draw_image(bleeding / "non-bleeding" / "images" / f"img- ({number}).png", 410 + number)
    mask(bleeding / "bleeding" / "Annotations" / "ann- (1).png", (30, 40, 100, 120))
    kid = tmp_path / "KID Dataset 1"
    draw_image(kid / "angioectasias" / "a1.png", 420)
    mask(kid / "angioectasias" / "a1m.png", (50, 50, 110, 120))
    draw_image(kid / "polypoid" / "b.png", 421)
    atlas = build_atlas([str(bleeding), str(kid)], 48)
    save_atlas(atlas, tmp_path / "atlas.parquet")
    found = read_regions(atlas.rows)
    marked = {Path(row.path).name: found.of.get(row.sha256, []) for row in atlas.rows if found.of.get(row.sha256)}
    assert set(marked) == {"img- (1).png", "a1.png"}
    named = {name: [region.label.finding for region in own] for name, own in marked.items()}
    assert named == {"img- (1).png": ["blood-SI"], "a1.png": ["angiectasia-SI"]}
    assert {row.dataset for row in atlas.rows} == {"kid", "wcebleedgen"}
    assert not any(row.path.endswith("a1m.png") for row in atlas.rows)


def test_broken_annotations_are_one_sentence(tmp_path: Path) -> None:
    write_endovis18(tmp_path / "e18")
    mask(tmp_path / "e18" / "train" / "annotations" / "seq_1_frame000.png", (20, 20, 90, 90), value=99)
    with pytest.raises(UserError, match="the kind 99"):
        list(source_of(tmp_path / "e18").read(tmp_path / "e18"))
    write_psi_ava(tmp_path / "ava")
    (tmp_path / "ava" / "annotations" / "train.json").write_text('{"images": []}', encoding="utf-8")
    with pytest.raises(UserError, match="no COCO file"):
        list(source_of(tmp_path / "ava").read(tmp_path / "ava"))
