"""Views of whole images: the map lies over the image at its full size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from panendofm.backbone.networks import find_network
from panendofm.backbone.visualize.full_view import similarity
from panendofm.runtime.command_line import run_stage


def halves(path: Path, width: int, height: int) -> Path:
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2] = (200, 40, 40)
    pixels[:, width // 2 :] = (40, 200, 60)
    Image.fromarray(pixels).save(path)
    return path


def show(*words: str) -> int:
    from panendofm.backbone.__main__ import STAGE

    with pytest.raises(SystemExit) as ended:
        run_stage(STAGE, ["show", *words])
    return int(str(ended.value.code))


def test_views_have_the_images_own_size_and_places(tmp_path: Path) -> None:
    image = halves(tmp_path / "p.png", 301, 117)
    out = tmp_path / "view.png"
    assert show("pixels", str(image), "whole=true", "side_px=320", "point=[40,60]", f"out={out}") == 0
    shown = np.asarray(Image.open(out)).astype(int)
    assert shown.shape == (117, 3 * 301 + 2 * 8, 3)
    assert np.array_equal(shown[:, :301], np.asarray(Image.open(image)))
    pca, alike = shown[:, 309:610], shown[:, 618:]
    left, right = pca[20:97, 40:110].mean((0, 1)), pca[20:97, 190:260].mean((0, 1))
    assert np.abs(left - right).max() > 60
    # Brighter beside the marked point than on the other side.
    assert alike[20:97, 40:110].mean() > alike[20:97, 190:260].mean() + 30


def test_a_field_is_most_like_itself() -> None:
    feature_map = torch.randn(6, 5, 9, generator=torch.Generator().manual_seed(0))
    alike = similarity(feature_map, 0.999, 0.0)
    assert alike.shape == (5, 9) and alike.argmax() == 8 and alike[0, 8] == pytest.approx(1.0)


def test_what_does_not_fit_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = str(halves(tmp_path / "p.png", 60, 40))
    assert find_network("pixels").outputs.maps
    for words in (("point=[3,4]",), ("whole=true", "point=[3]"), ("whole=true", "point=[90,4]")):
        assert show("pixels", image, *words, f"out={tmp_path / 'x.png'}") == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "x.png").exists()
