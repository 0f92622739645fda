"""What a stage reads with `clean` is, byte for byte, what a single image becomes in the shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import simplejpeg
from cleaned_images import recorded
from PIL import Image

from data_pipeline import PipelineConfig, plan
from data_pipeline.screening.screen_sources import PART_FRAMES, process_unit
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.imaging.leakage import build_guard
from panendofm.runtime.config import load_config


def test_cleaned_images_are_those_of_the_shards(tmp_path: Path) -> None:
    images = [recorded(1), recorded(2, box=False), recorded(3, text="Name: Doe 12/03/2019")]
    (tmp_path / "data").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"data/{number}.png")
    config = load_config(
        PipelineConfig,
        None,
        [
            f"data_root={tmp_path}",
            f"out={tmp_path / 'shards'}",
            "corpora={mine: {adapter: folder, root: data, license: CC0}}",
            "screen.text.reader=none",
        ],
    )
    (unit,) = plan(config).units
    process_unit(unit, config, build_guard([]), b"key", tmp_path / "part")
    content = (tmp_path / "part/frames.bin").read_bytes()
    rows = pq.read_table(tmp_path / "part" / PART_FRAMES).to_pylist()
    assert len(rows) == len(images), "an image was dropped"
    for row, image in zip(rows, images, strict=True):
        cleaned = np.ascontiguousarray(Cleaner(tmp_path / "memory")(image))
        assert content[row["offset"] : row["offset"] + row["size"]] == simplejpeg.encode_jpeg(
            cleaned, quality=config.shards.jpeg_quality, colorsubsampling="420"
        )
    assert rows[2]["text_filled"] > 0, "text was looked for on both ways"
