"""What networks are worth on dense tasks: synthetic polyps, and real pairs and real weights where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from panendofm.linear_probe.dense.config import DenseConfig
from panendofm.linear_probe.dense.run import run_dense
from panendofm.records.documents import as_document

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SHARED = Path(os.environ.get("ENDOSCOPY_DATA", REPOSITORY.parent / "shared" / "data"))


def values_of(words: list[str], data: Path, out: Path, **keys: Any) -> dict[str, dict[str, Any]]:
    benchmark = run_dense(words, DenseConfig(data=[str(data)], out=str(out), **keys))
    return {o.results.network: as_document(next(iter(o.results.tests.values()))) for o in benchmark.outcomes}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_imagenet_network_is_told_from_an_untrained_one_and_pixels(synthetic_corpus: Path, tmp_path: Path) -> None:
    words = ["efficientnet-lite0", "untrained:efficientnet-lite0", "pixels"]
    found = values_of(words, synthetic_corpus / "Kvasir-SEG", tmp_path)
    trained, untrained, pixels = (found[name]["segmentation"]["iou"] for name in found)
    assert trained["value"] >= 0.75 and untrained["value"] <= 0.40 and pixels["value"] <= 0.30
    assert trained["low"] > untrained["high"] and untrained["low"] > pixels["high"]
    boxes = {
        name: found_boxes["map_50"]["value"] for name, found_boxes in found["efficientnet-lite0"]["detection"].items()
    }
    assert boxes["components"] >= 0.6 and boxes["center"] >= boxes["components"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_real_vit_weights_beat_untrained_ones(synthetic_corpus: Path, tmp_path: Path) -> None:
    weights = SHARED / "weights" / "dinov2_vits14_reg4_first8_fp16.safetensors"
    if not weights.is_file():
        pytest.skip(f"no real weights at {weights}")
    found = values_of(
        [str(weights), f"untrained:{weights}"], synthetic_corpus / "Kvasir-SEG", tmp_path, side_px=252,
        heads=["linear", "linear-4"],
    )  # fmt: skip
    real, untrained = (found[name]["segmentation"]["iou"] for name in found)
    assert real["low"] > untrained["high"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_real_pairs_are_segmented(tmp_path: Path) -> None:
    folder = SHARED / "polyps" / "kvasir-seg"
    if not (folder / "masks").is_dir():
        pytest.skip(f"no real images with masks at {folder} (set ENDOSCOPY_DATA)")
    found = values_of(["efficientnet-lite0"], folder, tmp_path, side_px=256, unusable="leave-out")
    assert found["efficientnet-lite0"]["segmentation"]["iou"]["value"] >= 0.45
