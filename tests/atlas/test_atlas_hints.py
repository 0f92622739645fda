"""A dataset that gives nothing says why: archives not unpacked, a root one level too deep or too shallow."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from panendofm.atlas import NEAR_DUPLICATE_BITS, build_atlas
from panendofm.runtime.errors import UserError


def image(path: Path, color: int = 90) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), (color, 60, 50)).save(path)


@pytest.fixture
def good(tmp_path: Path) -> str:
    """A dataset that is as it should be, so that the other one is a row among others."""
    for number in range(2):
        image(tmp_path / f"kvasir-dataset-v2/polyps/{number}.png", 80 + 40 * number)
    return f"kvasir:{tmp_path / 'kvasir-dataset-v2'}"


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    build_atlas(words, NEAR_DUPLICATE_BITS)
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_packed_archives_are_named(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "Kvasir-SEG"
    folder.mkdir()
    (folder / "kvasir-seg.zip").write_bytes(b"PK")
    text = said([good, f"kvasir-seg:{folder}"], capsys)
    assert "kvasir-seg.zip" in text and "unpack" in text


@pytest.mark.parametrize("named", ["Kvasir-SEG/images", "Kvasir-SEG/images/..", "."])
def test_a_root_too_deep_or_too_shallow_names_the_right_folder(
    named: str, good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("images", "masks"):
        image(tmp_path / f"here/Kvasir-SEG/{part}/1.png")
    text = said([good, f"kvasir-seg:{tmp_path / 'here' / named}"], capsys)
    if named.endswith(".."):
        assert "gave no image" not in text, "the right folder says nothing"
    else:
        assert f"below {tmp_path / 'here/Kvasir-SEG'}: name that folder" in text


def test_a_folder_that_is_not_known_points_to_one_that_is(tmp_path: Path) -> None:
    for part in ("images", "masks"):
        image(tmp_path / f"a/b/c/d/e/Kvasir-SEG/{part}/1.png")
    for wrong in ("a", "a/b/c/d/e/Kvasir-SEG/images"):
        with pytest.raises(UserError, match=r"e/Kvasir-SEG looks like kvasir-seg, name that folder"):
            build_atlas([str(tmp_path / wrong)], NEAR_DUPLICATE_BITS)


def test_images_without_labels_are_said_to_be_so(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image(tmp_path / "empty/notes/1.png")
    text = said([good, f"kvasir-seg:{tmp_path / 'empty'}"], capsys)
    assert "do not lie where those of this dataset do" in text
    with pytest.raises(UserError, match="gave no image; its images do not lie"):
        build_atlas([f"kvasir-seg:{tmp_path / 'empty'}"], NEAR_DUPLICATE_BITS)
