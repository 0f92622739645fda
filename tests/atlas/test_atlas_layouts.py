"""Every dataset is read in its own layout: small copies of the folders, with labels and ids as the files give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from panendofm.atlas.datasets.layouts import find_datasets, read_items
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.datasets.readers import Item
from panendofm.runtime.errors import UserError

HEX = "0123456789abcdef"
# dataset → folder, its files (None: an image, else text), and for some images (labels, patient, video).
LAYOUTS: dict[str, tuple[str, dict[str, str | None], dict[str, tuple[tuple[str, ...], str | None, str | None]]]] = {
    "etis-larib": (
        "ETIS-LaribPolypDB",
        {"1.tif": None, "Ground Truth/p1.tif": None},
        {"1.tif": (("polyp",), None, None)},
    ),
    "cvc-clinicdb": (
        "CVC-ClinicDB",
        {"Original/7.tif": None, "Ground Truth/7.tif": None},
        {"Original/7.tif": (("polyp",), None, None)},
    ),
    "cvc-300": (
        "CVC-300",
        {"images/1.png": None, "masks/1.png": None},
        {"images/1.png": (("polyp",), None, None)},
    ),
    "cvc-colondb": (
        "CVC-ColonDB",
        {"images/1.png": None, "masks/1.png": None},
        {"images/1.png": (("polyp",), None, None)},
    ),
    "ldpolypvideo": (
        "LDPolypVideo",
        {"TrainValid/Images/5/0001.jpg": None, "TrainValid/Annotations/5/0001.txt": "0\n"},
        {"TrainValid/Images/5/0001.jpg": (("polyp",), None, "5")},
    ),
    "kvasir": (
        "kvasir-dataset-v2",
        {"dyed-lifted-polyps/a.jpg": None, "normal-z-line/b.jpg": None},
        {"normal-z-line/b.jpg": (("normal-z-line",), None, None)},
    ),
    "medico": (
        "Medico_2018_development_set",
        {
            f"{name}/a.jpg": None
            for name in ("dyed-lifted-polyps", "normal-z-line", "stool-plenty", "colon-clear", "blurry-nothing")
        },
        {"stool-plenty/a.jpg": (("stool-plenty",), None, None)},
    ),
    "nerthus": (
        "nerthus-dataset-frames",
        {"3/bowel_12_score_3-1_00000007.jpg": None},
        {"3/bowel_12_score_3-1_00000007.jpg": (("3",), None, "bowel_12")},
    ),
    "kvasir-seg": (
        "Kvasir-SEG",
        {"images/cju0.jpg": None, "masks/cju0.jpg": None},
        {"images/cju0.jpg": (("polyp",), None, None)},
    ),
    "edd2020": (
        "EDD2020_release-I",
        {
            "originalImages/EDD2020_A1.jpg": None,
            "originalImages/EDD2020_A2.jpg": None,
            "masks/EDD2020_A1_BE.tif": None,
            "masks/EDD2020_A1_HGD.tif": None,
            "masks/EDD2020_A2_polyp.tif": None,
        },
        {"originalImages/EDD2020_A1.jpg": (("BE", "HGD"), None, None)},
    ),
    "hyperkvasir": (
        "hyper-kvasir",
        {
            "labeled-images/lower-gi-tract/anatomical-landmarks/cecum/a.jpg": None,
            "unlabeled-images/images/b.jpg": None,
        },
        {"labeled-images/lower-gi-tract/anatomical-landmarks/cecum/a.jpg": (("cecum",), None, None)},
    ),
    "cp-child": (
        "CP-CHILD",
        {"CP-CHILD-A/Train/Polyp/0 (435).jpg": None, "CP-CHILD-B/Test/Non-Polyp/1.jpg": None},
        {"CP-CHILD-B/Test/Non-Polyp/1.jpg": (("Non-Polyp",), None, None)},
    ),
    "kvasir-capsule": (
        "labelled_images",
        {f"Normal clean mucosa/{HEX}_12.jpg": None, f"Ileocecal valve/{HEX}_13.jpg": None},
        {f"Ileocecal valve/{HEX}_13.jpg": (("Ileocecal valve",), None, HEX)},
    ),
    "kvasircapsule-seg": (
        "KvasirCapsule-SEG",
        {f"images/{HEX}_5.jpg": None, f"masks/{HEX}_5.jpg": None},
        {f"images/{HEX}_5.jpg": (("polyp",), None, HEX)},
    ),
    "kvasir-sessile": (
        "sessile-main-Kvasir-SEG",
        {"images/cju1.jpg": None, "masks/cju1.jpg": None},
        {"images/cju1.jpg": (("polyp",), None, None)},
    ),
    "kumc": (
        "PolypsSet",
        {
            "train2019/Image/1.jpg": None,
            "train2019/Annotation/1.xml": "<annotation><object><name>adenomatous</name></object></annotation>",
            "test2019/Image/4/2.jpg": None,
            "test2019/Annotation/4/2.xml": "<annotation><object><name>hyperplastic</name></object></annotation>",
        },
        {
            "train2019/Image/1.jpg": (("adenomatous",), None, None),
            "test2019/Image/4/2.jpg": (("hyperplastic",), None, "4"),
        },
    ),
    "sun": (
        "SUN",
        {
            "SUN-Positive/case1/a.jpg": None,
            "SUN-Positive/case2/a.jpg": None,
            "SUN-Negative/case1/b.jpg": None,
            "sun_codes.csv": "code,label\ncase2,SSL\n",
        },
        {
            "SUN-Positive/case1/a.jpg": (("polyp",), "case1", None),
            "SUN-Positive/case2/a.jpg": (("case2",), "case2", None),
            "SUN-Negative/case1/b.jpg": (("negative",), "negative-case1", None),
        },
    ),
    "crohnipi": (
        "CrohnIPI",
        {
            "CrohnIPI_description.csv": "Frame name;Labels\nf1.png;AU\nf2.png;N\n",
            "images/f1.png": None,
            "images/f2.png": None,
        },
        {"images/f1.png": (("AU",), None, None), "images/f2.png": (("N",), None, None)},
    ),
    "sun-seg": (
        "SUN-SEG",
        {"TrainDataset/Frame/case7_3/a.jpg": None, "TrainDataset/GT/case7_3/a.png": None},
        {"TrainDataset/Frame/case7_3/a.jpg": (("polyp",), "case7", None)},
    ),
    "ers": (
        "ers",
        {
            "0001/samples/frames/000001.png": None,
            "0001/samples/frames/000002.png": None,
            "0001/samples/labels/000001_c22_q02.png": "",
            "0001/seq_01/frames/000001.png": None,
            "0001/seq_01/labels/000001_c05.png": "",
        },
        {
            "0001/samples/frames/000001.png": (("c22", "q02"), "0001", "0001/samples"),
            "0001/seq_01/frames/000001.png": (("c05",), "0001", "0001/seq_01"),
        },
    ),
    "polypgen": (
        "PolypGen2021_MultiCenterData_v3",
        {"data_C1/images_C1/a.jpg": None, "data_C1/masks_C1/a.jpg": None, "sequenceData/negative/seq3/b.jpg": None},
        {
            "data_C1/images_C1/a.jpg": (("polyp",), None, None),
            "sequenceData/negative/seq3/b.jpg": (("negative",), None, "negative-seq3"),
        },
    ),
    "gastrovision": (
        "Gastrovision",
        {"Normal stomach/a.jpg": None, "Pylorus/b.jpg": None, "Cecum/c.jpg": None},
        {"Pylorus/b.jpg": (("Pylorus",), None, None)},
    ),
    "medfmc-endo": (
        "endo",
        {
            "trainval.txt": "x_2020.01_0001_7.png 0 1 1 0\nx_2020.01_0002_8.png 0 0 0 0\n",
            "images/x_2020.01_0001_7.png": None,
            "images/x_2020.01_0002_8.png": None,
        },
        {
            "images/x_2020.01_0001_7.png": (("erosion", "polyp"), "2020.01_0001", None),
            "images/x_2020.01_0002_8.png": (("all_zero",), "2020.01_0002", None),
        },
    ),
    "limuc": (
        "LIMUC",
        {
            "patient_based_classified_images/10/Mayo 0/UC_patient_10_2.bmp": None,
            "test_set/Mayo 3/UC_patient_12_1.bmp": None,
        },
        {
            "patient_based_classified_images/10/Mayo 0/UC_patient_10_2.bmp": (("Mayo 0",), "10", None),
            "test_set/Mayo 3/UC_patient_12_1.bmp": (("Mayo 3",), "12", None),
        },
    ),
    "gastrohun": (
        "GastroHUN",
        {
            "official_splits/image_classification.csv": "patient,filename,Complete agreement\n7,a.jpg,G4\n7,b.jpg,\n",
            "Labeled Images/7/a.jpg": None,
            "Labeled Images/7/b.jpg": None,
        },
        {"Labeled Images/7/a.jpg": (("G4",), "7", None)},
    ),
    "capsule-vision-2024": (
        "Dataset",
        {"training/Worms/a.jpg": None, "validation/Angioectasia/KID/b.jpg": None},
        {
            "training/Worms/a.jpg": (("Worms",), None, None),
            "validation/Angioectasia/KID/b.jpg": (("Angioectasia",), None, None),
        },
    ),
    "wcebleedgen": (
        "WCEBleedGen",
        {"bleeding/Images/img- (1).png": None, "non-bleeding/images/img- (1).png": None},
        {"bleeding/Images/img- (1).png": (("bleeding",), None, None)},
    ),
    "kid": (
        "KID Dataset 1",
        {"angioectasias/a1.png": None, "angioectasias/a1m.png": None, "polypoid/b.jpg": None},
        {"angioectasias/a1.png": (("angioectasias",), None, None), "polypoid/b.jpg": (("polypoid",), None, None)},
    ),
    "bkai-neopolyp": (
        "bkai-igh-neopolyp",
        {"train/train/a.jpeg": None, "train_gt/train_gt/a.jpeg": None},
        {"train/train/a.jpeg": (("neoplastic", "non-neoplastic"), None, None)},
    ),
    "piccolo": (
        "piccolo dataset-release0.1",
        {
            "train/polyps/001_VP1_frame0001.png": None,
            "validation/polyps/002_VP2_frame0001.png": None,
            "test/polyps/003_VP3_frame0001.png": None,
            "piccolo_codes.csv": "code,label\n002,adenoma\n",
        },
        {
            "train/polyps/001_VP1_frame0001.png": (("polyp",), "001", None),
            "validation/polyps/002_VP2_frame0001.png": (("002",), "002", None),
        },
    ),
    "see-ai": (
        "SEE-AI",
        {
            "classes.txt": "angiodysplasia\nerosion\n",
            "images/a.jpg": None,
            "images/b.jpg": None,
            "labels/a.txt": "1 0.5 0.5 0.1 0.1\n0 0.5 0.5 0.1 0.1\n",
        },
        {"images/a.jpg": (("angiodysplasia", "erosion"), None, None), "images/b.jpg": (("normal",), None, None)},
    ),
}


RED_AND_GREEN = np.zeros((40, 40, 3), np.uint8)
RED_AND_GREEN[:10, :, 0] = 255
RED_AND_GREEN[20:, :, 1] = 255


def write_layout(folder: Path, files: dict[str, str | None]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            # Masks whose colors are classes need colors.
            image = Image.fromarray(RED_AND_GREEN) if "train_gt" in name else Image.new("RGB", (8, 8))
            image.save(path)
        else:
            path.write_text(content)


@pytest.mark.parametrize("dataset", LAYOUTS)
def test_a_dataset_is_recognised_and_read(dataset: str, tmp_path: Path) -> None:
    folder, files, expected = LAYOUTS[dataset]
    write_layout(tmp_path / "all" / folder, files)
    mappings = load_mappings()
    (found,) = find_datasets([str(tmp_path / "all")], mappings)
    assert found.mapping.dataset == dataset
    items, _ = read_items(found)
    by_name = {item.path.relative_to(tmp_path / "all" / folder).as_posix(): item for item in items}
    for name, (labels, patient, video) in expected.items():
        center = next((known for part, known in {"data_C1": "1", "KID": "KID"}.items() if part in name), None)
        assert by_name[name] == Item(by_name[name].path, labels, patient, video, center=center)
    for item in items:
        assert "mask" not in str(item.path) and "Ground" not in str(item.path) and "GT" not in str(item.path)
        assert all(found.mapping.meaning(label) is not None for label in item.labels)


def test_every_dataset_but_the_one_without_a_known_layout_is_covered() -> None:
    assert set(load_mappings()) - set(LAYOUTS) == {"polar"}


def test_all_datasets_at_once_are_told_apart(tmp_path: Path) -> None:
    for folder, files, _ in LAYOUTS.values():
        write_layout(tmp_path / folder, files)
    found = find_datasets([str(tmp_path)], load_mappings())
    assert [f.mapping.dataset for f in found] == sorted(LAYOUTS)


def test_images_without_a_label_are_counted_not_invented(tmp_path: Path) -> None:
    folder, files, _ = LAYOUTS["ers"]
    write_layout(tmp_path / folder, files)
    items, unlabelled = read_items(find_datasets([str(tmp_path)], load_mappings())[0])
    assert len(items) == 2 and unlabelled == 3  # one frame without codes, and two label files are images by name


def test_a_table_names_the_images_of_a_dataset_without_a_known_layout(tmp_path: Path) -> None:
    write_layout(tmp_path, {"a.png": None, "t.csv": "file,label,patient\na.png,adenoma,p1\n"})
    (found,) = find_datasets([f"polar:{tmp_path / 't.csv'}"], load_mappings())
    assert read_items(found)[0] == [Item(tmp_path / "a.png", ("adenoma",), "p1", None)]
    # Or its folder, with a table of codes: a code is the name of an image.
    (tmp_path / "polar_codes.csv").write_text("code,label\na,sessile serrated\n")
    (found,) = find_datasets([f"polar:{tmp_path}"], load_mappings())
    (item,) = read_items(found)[0]
    assert [label.grade for label in found.mapping.meaning(item.labels[0]) or ()] == ["serrated"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\nb.png,adenoma\n", "line 2: the file .*b.png does not exist"),
        ("file,label\na.png,\n", "line 2: the label is empty"),
        ("file,label\na.png\n", "line 2: the label is empty"),
        ("name,label\na.png,adenoma\n", "the column 'file' is missing; there are: name, label"),
    ],
)
def test_a_broken_table_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    write_layout(tmp_path, {"a.png": None, "t.csv": text})
    (found,) = find_datasets([f"polar:{tmp_path / 't.csv'}"], load_mappings())
    with pytest.raises(UserError, match=message):
        read_items(found)


def test_missing_folders_and_unknown_ones_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: it is not a folder"):
        find_datasets([str(tmp_path / "nowhere")], load_mappings())
    with pytest.raises(UserError, match="no dataset of the atlas was recognized"):
        find_datasets([str(tmp_path)], load_mappings())
    with pytest.raises(UserError, match=r"as kvasir: it does not exist"):
        find_datasets([f"kvasir:{tmp_path / 'nowhere'}"], load_mappings())


def test_boxes_with_unnamed_classes_are_refused(tmp_path: Path) -> None:
    folder, files, _ = LAYOUTS["see-ai"]
    write_layout(tmp_path / folder, {k: v for k, v in files.items() if k != "classes.txt"})
    (found,) = find_datasets([str(tmp_path)], load_mappings())
    items, unlabelled = read_items(found)
    # Class numbers without a meaning, and nothing is called normal because it has no boxes.
    assert [item.labels for item in items] == [("0", "1")] and unlabelled == 1
    assert found.mapping.meaning("0") is None
    (tmp_path / folder / "see-ai_codes.csv").write_text("code,label\n0,angiodysplasia\n1,erosion\n")
    (found,) = find_datasets([str(tmp_path)], load_mappings())
    assert [item.labels for item in read_items(found)[0]] == [("0", "1"), ("normal",)]
    assert found.mapping.meaning("1") == found.mapping.meaning("erosion")
    (tmp_path / folder / "classes.txt").write_text("angiodysplasia")
    with pytest.raises(UserError, match=r"a.txt: .* has no name for the class 1"):
        read_items(found)


def test_a_table_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("file,label\nä.png,polyp\n".encode("latin-1"))
    (found,) = find_datasets([f"polar:{tmp_path / 't.csv'}"], load_mappings())
    with pytest.raises(UserError, match=r"t.csv: it is not UTF-8 text"):
        read_items(found)
