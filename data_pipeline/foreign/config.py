"""The keys of `data_pipeline import` and `data_pipeline check`."""

from __future__ import annotations

from dataclasses import dataclass, field

from data_pipeline.config import RayConfig
from panendofm.imaging.leakage import LeakageConfig
from panendofm.runtime.config import option


@dataclass
class ImportConfig:
    """From WebDataset tars, a folder of images or a saved Hugging Face dataset to a shard set."""

    out: str = option("Folder for the shard set.", "shards")
    leave_out: str | None = option("CSV with a column `key`: samples to leave out, such as what `check` found.", None)


@dataclass
class CheckConfig:
    """Compare every image of a shard set with the images of evaluation sets."""

    leakage: LeakageConfig = field(default_factory=LeakageConfig)
    out: str = option("CSV of the copies that were found.", "leaks.csv")
    ray: RayConfig = field(default_factory=RayConfig)
