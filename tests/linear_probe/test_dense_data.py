"""Images with masks from many layouts, unusable ones, and splits that nothing crosses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from dense_sets import blob, write_set

from panendofm.linear_probe.dense.config import DenseConfig
from panendofm.linear_probe.dense.data.images import read_dense_images, read_truth
from panendofm.linear_probe.dense.data.splits import make_plan
from panendofm.runtime.errors import UserError


def test_jpeg_masks_and_capitals(tmp_path: Path) -> None:
    data = write_set(tmp_path / "Kvasir-SEG", 4, sizes=((120, 90),))
    for path in list((data / "images").iterdir()) + list((data / "masks").iterdir()):
        cv2.imwrite(str(path.with_suffix(".JPG")), cv2.imread(str(path)))
        path.unlink()
    images = read_dense_images([str(data)])
    assert len(images) == 4 and {p.dataset for p in images} == {"kvasir-seg"}
    for image in images:
        number = int(Path(image.path).stem[1:])
        truth = read_truth(image, ("polyp",))
        expected = blob(120, 90, number)[1] > 0 if number % 3 != 2 else np.zeros((90, 120), bool)
        assert (truth.masks[0] ^ expected).sum() <= 0.02 * expected.sum()
        assert len(truth.boxes[0]) == int(expected.any())


def test_a_missing_mask_and_one_of_another_size_are_named_or_left_out(tmp_path: Path) -> None:
    data = write_set(tmp_path / "Kvasir-SEG", 6, sizes=((120, 90),))
    (data / "masks" / "p01.png").unlink()
    with pytest.raises(UserError, match=r"p01\.png: it has no mask"):
        read_dense_images([str(data)])
    cv2.imwrite(str(data / "masks" / "p01.png"), np.zeros((45, 60), np.uint8))
    with pytest.raises(UserError, match=r"p01\.png: the mask is 60 × 45, its image 120 × 90"):
        read_dense_images([str(data)])
    (data / "masks" / "p03.png").write_bytes(b"no image")
    left = read_dense_images([str(data)], unusable="leave-out")
    assert {Path(p.path).stem for p in left} == {"p00", "p02", "p04", "p05"}


def test_datasets_of_masks_and_boxes(tmp_path: Path) -> None:
    clinic = tmp_path / "CVC-ClinicDB"
    for part in ("Original", "Ground Truth"):
        (clinic / part).mkdir(parents=True)
    image, mask = blob(96, 72, 3)
    cv2.imwrite(str(clinic / "Original" / "7.tif"), image)
    cv2.imwrite(str(clinic / "Ground Truth" / "7.tif"), mask)
    (found,) = read_dense_images([str(clinic)])
    assert found.masked and np.array_equal(read_truth(found, ("polyp",)).masks[0], mask > 0)
    video = tmp_path / "LDPolypVideo"
    (video / "TrainValid" / "Images" / "5").mkdir(parents=True)
    (video / "TrainValid" / "Annotations" / "5").mkdir(parents=True)
    for number in (1, 2):
        cv2.imwrite(str(video / "TrainValid" / "Images" / "5" / f"{number:04d}.jpg"), blob(96, 72, 10 + number)[0])
    (video / "TrainValid" / "Annotations" / "5" / "0001.txt").write_text("1\n10 20 40 60\n")
    (video / "TrainValid" / "Annotations" / "5" / "0002.txt").write_text("0\n")
    images = {Path(p.path).stem: p for p in read_dense_images([str(video)])}
    assert not images["0001"].masked and images["0001"].links[0].endswith("ldpolypvideo:5")
    assert read_truth(images["0001"], ("polyp",)).boxes == [[(10, 20, 30, 40)]]
    assert not images["0002"].has_finding


def polypgen(folder: Path) -> Path:
    for center in (1, 2, 3):
        for part in ("images", "masks"):
            (folder / f"data_C{center}" / f"{part}_C{center}").mkdir(parents=True)
        for number in range(10):
            image, mask = blob(96 + 8 * center, 72, 100 * center + number)
            cv2.imwrite(str(folder / f"data_C{center}" / f"images_C{center}" / f"c{center}_{number}.jpg"), image)
            name = f"c{center}_{number}_mask.jpg"
            cv2.imwrite(str(folder / f"data_C{center}" / f"masks_C{center}" / name), mask)
    # One image of the first center is also filed under the third.
    for part, end in (("images", ""), ("masks", "_mask")):
        source = folder / "data_C1" / f"{part}_C1" / f"c1_0{end}.jpg"
        shifted = cv2.convertScaleAbs(cv2.imread(str(source)), alpha=0.99 if part == "images" else 1.0)
        cv2.imwrite(str(folder / "data_C3" / f"{part}_C3" / f"copy{end}.jpg"), shifted)
    return folder


def test_each_center_is_left_out_once(tmp_path: Path) -> None:
    config = DenseConfig(data=[str(polypgen(tmp_path / "PolypGen"))], split_by="leave-one-center-out")
    plan = make_plan(config)
    assert [fold.name for fold in plan.folds] == [f"without center {c}" for c in "123"]
    for fold in plan.folds:
        ((name, test),) = fold.tests.items()
        assert {plan.images[i].center for i in test} == {name[-1]}
        rest = np.concatenate([fold.train, fold.validation])
        assert name[-1] not in {plan.images[i].center for i in rest}
        assert not set(plan.groups[test].tolist()) & set(plan.groups[rest].tolist())
        assert not set(plan.groups[fold.train].tolist()) & set(plan.groups[fold.validation].tolist())


def test_groups_stay_whole_and_tested_datasets_lose_what_training_has_seen(tmp_path: Path) -> None:
    train = write_set(tmp_path / "Kvasir-SEG", 24, sizes=((120, 90), (96, 96)))
    other = write_set(tmp_path / "Other", 8, first_seed=300, sizes=((140, 90),))
    plan = make_plan(DenseConfig(data=[str(train)]))
    chosen = plan.images[int(plan.folds[0].train[0])]
    shutil.copy(chosen.path, other / "images" / "twin.png")
    shutil.copy(Path(chosen.path).parent.parent / "masks" / Path(chosen.path).name, other / "masks" / "twin.png")
    image = cv2.imread(str(other / "images" / "twin.png"))
    cv2.imwrite(str(other / "images" / "twin.png"), cv2.convertScaleAbs(image, alpha=0.98))
    crossed = make_plan(DenseConfig(data=[str(train)], test=[str(other)]))
    (fold,) = crossed.folds
    assert list(fold.tests) == ["kvasir-seg", "Other"]
    sides = [fold.train, fold.validation, fold.tests["kvasir-seg"]]
    for i, one in enumerate(sides):
        for two in sides[i + 1 :]:
            assert not set(crossed.groups[one].tolist()) & set(crossed.groups[two].tolist())
    assert "twin.png" not in {Path(crossed.images[i].path).name for i in fold.tests["Other"]}
    assert any("near-duplicates" in note for note in crossed.notes)


def test_pranets_split_is_flagged_with_its_leaks(tmp_path: Path) -> None:
    root = tmp_path / "PraNet"
    write_set(root / "TrainDataset", 18, sizes=((120, 90),))
    for part in ("image", "mask"):
        (root / "TrainDataset" / f"{part}s").rename(root / "TrainDataset" / part)
    write_set(root / "TestDataset" / "CVC-300", 6, first_seed=400, sizes=((100, 90),))
    write_set(root / "TestDataset" / "Kvasir", 6, first_seed=500, sizes=((100, 90),))
    for part in ("image", "mask"):
        name = root / "TrainDataset" / part / "p00.png"
        changed = cv2.convertScaleAbs(cv2.imread(str(name)), alpha=0.98 if part == "image" else 1.0)
        cv2.imwrite(str(root / "TestDataset" / "Kvasir" / f"{part}s" / "seen.png"), changed)
    plan = make_plan(DenseConfig(data=[str(root)], split_by="pranet"))
    assert plan.leaks == {"Kvasir": 1}
    assert "Kvasir 1 of 7" in plan.notes[0] and "too high" in plan.notes[0]
    assert {name: len(rows) for name, rows in plan.folds[0].tests.items()} == {"CVC-300": 6, "Kvasir": 7}


def box_entry(width: int, height: int, *boxes: tuple[int, int, int, int]) -> dict[str, object]:
    corners = [dict(zip(("label", "xmin", "ymin", "xmax", "ymax"), ("polyp", *box), strict=True)) for box in boxes]
    return {"height": height, "width": width, "bbox": corners}


def test_the_official_box_file_is_the_truth_of_detection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two polyps that touch are one part of the mask, but two boxes; clean images need no entry."""
    data = tmp_path / "Kvasir-SEG"
    for part in ("images", "masks"):
        (data / part).mkdir(parents=True)
    mask = np.zeros((60, 80), np.uint8)
    mask[10:30, 20:40] = mask[25:50, 39:70] = 255
    for number in range(4):
        cv2.imwrite(str(data / "images" / f"p{number}.jpg"), blob(80, 60, number)[0])
        cv2.imwrite(str(data / "masks" / f"p{number}.jpg"), mask if number < 3 else 0 * mask)
    two = box_entry(80, 60, (20, 10, 40, 30), (39, 25, 70, 50))
    entries = {"p0": two, "p1": two, "p2": two}
    official = data / "kavsir_bboxes.json"

    def read() -> dict[str, list[tuple[float, ...]]]:
        official.write_text(json.dumps(entries))
        images = {Path(p.path).stem: p for p in read_dense_images([str(data)])}
        truths = {name: read_truth(image, ("polyp",)) for name, image in images.items()}
        # Masks stay masks: boxes are not filled in.
        assert all(abs(int(truths[f"p{n}"].masks.sum()) - int((mask > 0).sum())) < 40 for n in range(3))
        return {name: [tuple(box) for box in truth.boxes[0]] for name, truth in truths.items()}

    found = read()
    assert found["p0"] == [(20, 10, 20, 20), (39, 25, 31, 25)] and found["p3"] == []
    assert "do not fit" not in capsys.readouterr().out
    # One box shifted; one image listed in another size, which has the box of its mask's one part.
    entries |= {"p1": box_entry(80, 60, (0, 0, 20, 20)), "p2": box_entry(160, 120, (40, 20, 80, 60))}
    found = read()
    assert found["p1"] == [(0, 0, 20, 20)]
    np.testing.assert_allclose(found["p2"], [(20, 10, 50, 40)], atol=2)
    said = capsys.readouterr().out
    assert "kavsir_bboxes.json: the boxes of 2 images do not fit their masks, p1 first" in said
    entries["p0"] = {"height": 60, "width": 80, "bbox": [{"label": "polyp", "xmin": 5}]}
    with pytest.raises(UserError, match=r"kavsir_bboxes\.json: the entry of p0 needs"):
        read()
    official.unlink()
    assert len(read_truth(read_dense_images([str(data)])[0], ("polyp",)).boxes[0]) == 1


def test_a_plain_folder_that_is_called_like_a_dataset_is_read_without_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_dense_images([str(write_set(tmp_path / "cvc-clinicdb", 6))])
    assert len(found) == 6
    assert "warning" not in "".join(capsys.readouterr())
