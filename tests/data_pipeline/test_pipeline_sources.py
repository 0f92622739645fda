"""Listing corpora and planning the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_pipeline import CorpusConfig, PipelineConfig, plan
from data_pipeline.registry import adapters
from data_pipeline.sources import FoundFile, Source, find_files, list_sources, natural_order
from panendofm.runtime.errors import UserError


def touch(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x")
    return root


def listed(root: Path, adapter: str) -> dict[str, Source]:
    return {source.path: source for source in list_sources(adapters()[adapter], adapter, find_files(root))}


def facts(source: Source) -> tuple[str, str | None, str | None, str | None, str | None]:
    return source.kind, source.patient, source.video, source.organ, source.component


LAYOUTS = {
    "colonoscopicds": (
        ["adenoma/adenoma_01_NBI.mp4", "adenoma/adenoma_01_WL.mp4", "notes.txt"],
        {
            "adenoma/adenoma_01_NBI.mp4": ("video", "adenoma_01", "adenoma_01_NBI", "colon", None),
            "adenoma/adenoma_01_WL.mp4": ("video", "adenoma_01", "adenoma_01_WL", "colon", None),
        },
    ),
    "ldpolypvideo": (
        ["TrainValid/Images/7/2.jpg", "TrainValid/Images/7/10.jpg", "TrainValid/Annotations/7/2.txt", "Videos/3.avi"],
        {
            "TrainValid/Images/7": ("sequence", None, "7", "colon", None),
            "Videos/3.avi": ("video", None, "3", "colon", None),
        },
    ),
    "ers": (
        [
            "0004/samples/frames/000001.png",
            "0004/samples/labels/000001_c22.png",
            "0004/seq_01/frames/000001.png",
            "0004/seq_01/labels/000001_q02.png",
        ],
        {
            "0004/samples/frames/000001.png": ("image", "0004", None, None, None),
            "0004/seq_01/frames": ("sequence", "0004", "seq_01", None, None),
        },
    ),
    "ri-vce": (
        ["s012/3_small_bowel/image-00001.png", "s012/4_colon/image-00002.png"],
        {
            "s012/3_small_bowel": ("sequence", "s012", None, "small-intestine", None),
            "s012/4_colon": ("sequence", "s012", None, "colon", None),
        },
    ),
    "endofm-pretrain": (
        ["Renji-colonoscope/00001.mp4", "CholecTriplet/00001.mp4"],
        {
            "Renji-colonoscope/00001.mp4": ("video", None, "00001", "colon", "Renji-colonoscope"),
            "CholecTriplet/00001.mp4": ("video", None, "00001", None, "CholecTriplet"),
        },
    ),
    "hyperkvasir": (
        [
            "labeled-images/lower-gi-tract/anatomical-landmarks/cecum/a.jpg",
            "labeled-images/upper-gi-tract/anatomical-landmarks/z-line/b.jpg",
            "unlabeled-images/images/c.jpg",
            "labeled-videos/lower-gi-tract/pathological-findings/polyps/d.avi",
            "segmented-images/images/e.jpg",
            "segmented-images/masks/e.jpg",
        ],
        {
            "labeled-images/lower-gi-tract/anatomical-landmarks/cecum/a.jpg": ("image", None, None, "colon", None),
            "labeled-images/upper-gi-tract/anatomical-landmarks/z-line/b.jpg": ("image", None, None, None, None),
            "unlabeled-images/images/c.jpg": ("image", None, None, None, None),
            "labeled-videos/lower-gi-tract/pathological-findings/polyps/d.avi": ("video", None, "d", "colon", None),
        },
    ),
    "kvasir": (
        ["kvasir-dataset-v2/normal-pylorus/0a7bdce4.jpg"],
        {"kvasir-dataset-v2/normal-pylorus/0a7bdce4.jpg": ("image", None, None, "stomach", None)},
    ),
    "kvasir-capsule": (
        ["labelled_images/Polyp/0123456789abcdef_20.jpg", "unlabelled_videos/fedcba.mp4"],
        {
            "labelled_images/Polyp/0123456789abcdef_20.jpg": (
                "image",
                "0123456789abcdef",
                "0123456789abcdef",
                "small-intestine",
                None,
            ),
            "unlabelled_videos/fedcba.mp4": ("video", "fedcba", "fedcba", "small-intestine", None),
        },
    ),
    "folder": (
        ["a/1.AVI", "b/1.avi", "b/x.PNG", "b/readme.md", ".hidden/2.avi"],
        {
            "a/1.AVI": ("video", None, "1", None, None),
            "b/1.avi": ("video", None, "1", None, None),
            "b/x.PNG": ("image", None, None, None, None),
        },
    ),
}


@pytest.mark.parametrize("adapter", LAYOUTS)
def test_layout_of_each_corpus(adapter: str, tmp_path: Path) -> None:
    files, expected = LAYOUTS[adapter]
    found = listed(touch(tmp_path, *files), adapter)
    assert {path: facts(source) for path, source in found.items()} == expected


def test_every_adapter_has_a_layout_test() -> None:
    assert set(LAYOUTS) == set(adapters())


def test_frames_of_a_sequence_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    source = listed(touch(tmp_path, *(f"Test/Images/1/{n}.jpg" for n in (10, 9, 100, 1))), "ldpolypvideo")
    assert [file.path.rpartition("/")[2] for file in source["Test/Images/1"].files] == [
        "1.jpg",
        "9.jpg",
        "10.jpg",
        "100.jpg",
    ]
    assert natural_order("a9b") < natural_order("a10b")


@pytest.mark.parametrize("path", ["../other/1.avi", "a/../../1.avi", "/etc/1.avi"])
def test_paths_that_leave_the_corpus_are_refused(path: str) -> None:
    with pytest.raises(UserError, match="leads out of its root"):
        list_sources(adapters()["folder"], "mine", [FoundFile(path, 1, 0)])


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    touch(tmp_path / "outside", "secret.avi")
    touch(tmp_path / "corpus", "1.avi")
    (tmp_path / "corpus" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "corpus" / "circle").symlink_to(tmp_path / "corpus")
    assert list(listed(tmp_path / "corpus", "folder")) == ["1.avi"]


def pipeline(root: Path, **corpora: str) -> PipelineConfig:
    return PipelineConfig(
        out=str(root / "out"),
        data_root=str(root),
        corpora={name.replace("_", "-"): CorpusConfig(adapter, name) for name, adapter in corpora.items()},
    )


def test_known_overlaps_are_counted_once_when_both_corpora_are_there(tmp_path: Path) -> None:
    touch(tmp_path / "clips", "Colonoscopic/00001.mp4", "LDPolypVideo/00001.mp4", "Renji-colonoscope/00001.mp4")
    touch(tmp_path / "colon", "adenoma/a_WL.mp4")
    both = plan(pipeline(tmp_path, colon="colonoscopicds", clips="endofm-pretrain"))
    assert [s.path for s in both.sources] == [
        "adenoma/a_WL.mp4",
        "LDPolypVideo/00001.mp4",
        "Renji-colonoscope/00001.mp4",
    ]
    assert both.left_out == {"clips/Colonoscopic: known overlap with colonoscopicds": 1}
    alone = plan(pipeline(tmp_path, clips="endofm-pretrain"))
    assert len(alone.sources) == 3 and alone.left_out == {}


def test_overlaps_with_evaluation_sets_are_named(tmp_path: Path) -> None:
    touch(tmp_path / "ers", "0001/samples/frames/000001.png")
    overlaps = plan(pipeline(tmp_path, ers="ers")).overlaps
    assert [(overlap.part, overlap.of) for overlap in overlaps] == [("ers", "ers")]


def test_overlaps_of_components_are_named_whatever_the_corpus_is_called(tmp_path: Path) -> None:
    touch(tmp_path / "clips", "Hyper-Kvasir/00001.mp4")
    overlaps = plan(pipeline(tmp_path, clips="endofm-pretrain")).overlaps
    assert [(overlap.part, overlap.of) for overlap in overlaps] == [("endofm-pretrain/Hyper-Kvasir", "hyperkvasir")]


def test_excluded_components_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path / "clips", "CholecTriplet/1.mp4", "Renji-colonoscope/1.mp4")
    config = pipeline(tmp_path, clips="endofm-pretrain")
    config.corpora["clips"].exclude_components = ["CholecTriplet"]
    made = plan(config)
    assert [source.path for source in made.sources] == ["Renji-colonoscope/1.mp4"]
    assert made.left_out == {"clips/CholecTriplet: excluded": 1}


def test_a_misspelt_component_to_exclude_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    touch(tmp_path / "clips", "CholecTriplet/1.mp4", "Renji-colonoscope/1.mp4")
    touch(tmp_path / "colon", "adenoma/a_WL.mp4")
    config = pipeline(tmp_path, clips="endofm-pretrain", colon="colonoscopicds")
    config.corpora["clips"].exclude_components = ["cholectriplets"]
    message = r"corpora.clips.exclude_components: .* 'cholectriplets'; did you mean 'CholecTriplet'\?"
    with pytest.raises(UserError, match=message):
        plan(config)
    config.corpora["clips"].exclude_components = ["CholecTriplet", "SUN"]  # the latter was removed from the disk
    assert plan(config).left_out == {"clips/CholecTriplet: excluded": 1}
    assert "there is no component 'SUN' here" in capsys.readouterr().out
    config.corpora["colon"].exclude_components = ["adenoma"]
    with pytest.raises(UserError, match="'colonoscopicds' knows no components; remove the key"):
        plan(config)


def test_a_known_overlap_is_found_whatever_the_capitals_and_a_misspelt_folder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touch(tmp_path / "clips", "colonoscopic/1.mp4", "Kvasir_Capsule/1.mp4", "Renji-colonoscope/1.mp4")
    touch(tmp_path / "colon", "adenoma/a_WL.mp4")
    both = plan(pipeline(tmp_path, colon="colonoscopicds", clips="endofm-pretrain"))
    assert both.left_out == {"clips/colonoscopic: known overlap with colonoscopicds": 1}
    warned = capsys.readouterr().out
    assert "the component 'Kvasir_Capsule' is not known, but looks like 'Kvasir-Capsule'" in warned
    assert "Renji" not in warned


def test_single_images_are_cut_into_units_and_videos_stand_alone(tmp_path: Path) -> None:
    touch(tmp_path / "mine", "v.mp4", *(f"{n}.jpg" for n in range(150)))
    config = pipeline(tmp_path, mine="folder")
    assert [len(unit.sources) for unit in plan(config).units] == [1, 64, 64, 22]


def test_two_files_of_one_name_are_two_sources_with_two_names(tmp_path: Path) -> None:
    from data_pipeline.identity import hashed

    found = listed(touch(tmp_path, "a/1.avi", "b/1.avi"), "folder")
    names = {hashed(b"k" * 32, "source", "mine", path) for path in found}
    assert len(names) == 2


def test_plan_is_the_same_every_time(tmp_path: Path) -> None:
    touch(tmp_path / "mine", *(f"{n % 7}/{n}.jpg" for n in range(40)), "z.mp4", "a.mp4")
    config = pipeline(tmp_path, mine="folder")
    assert plan(config) == plan(config)


def test_missing_root_empty_corpus_and_unknown_adapter_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"corpora\.ers\.root: the folder .*ers does not exist"):
        plan(pipeline(tmp_path, ers="ers"))
    (tmp_path / "ers").mkdir()
    with pytest.raises(UserError, match=r"corpora\.ers\.root: .* holds no file that the adapter 'ers' knows"):
        plan(pipeline(tmp_path, ers="ers"))
    with pytest.raises(UserError, match="did you mean 'ers'"):
        plan(pipeline(tmp_path, ers="err"))
    with pytest.raises(UserError, match="corpora is empty"):
        plan(PipelineConfig())
