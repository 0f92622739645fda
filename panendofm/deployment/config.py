"""The keys of `panendofm compress` and `panendofm benchmark`."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig

TORCH = "torch"
FP32 = "onnx"
FP16 = "onnx-fp16"
INT8 = "onnx-int8"
SMALLER = (FP16, INT8)
FORMATS = (TORCH, FP32, *SMALLER)


@dataclass
class CompressConfig:
    """All keys of `panendofm compress`."""

    out: str = required("The release folder to write: a copy with smaller graphs.")
    formats: list[str] = option(f"Graphs to add: {', '.join(SMALLER)}.", list(SMALLER))
    calibration: str | None = option(
        f"{INT8}: shards or a folder of images, like those that the network will see, but none of the evaluation.", None
    )
    calibration_images: int = option("At most so many of them, evenly chosen.", 128, low=1)
    outlier: float = option(
        f"{INT8}: a layer stays in float32 when its largest input is above so many times the 99.9% quantile.",
        20.0,
        above=1,
    )
    labeled: str | None = option("Labeled images for kNN: as data.path of `python -m eval_knn`.", None)
    clean: bool = option("Read the labeled images as training frames are.", False)
    k: int = option("Number of neighbors.", 20, low=1)
    masks: list[str] = option("Images with masks, for the IoU of a linear head: as data of `panendofm dense`.", [])
    masks_px: int = option("Side that images with masks are squashed to, about.", 224, low=16)
    bootstrap: BootstrapConfig = option("", BootstrapConfig())
    cache: str | None = option("Folder for splits and cleaned images; null: in the user's cache folder.", None)

    def check(self) -> None:
        unknown = [kind for kind in self.formats if kind not in SMALLER]
        if unknown or not self.formats:
            raise UserError(f"formats: '{', '.join(unknown)}' is not one of {', '.join(SMALLER)}.")
        if INT8 in self.formats and self.calibration is None:
            raise UserError(f"{INT8} needs images to find ranges on: name shards or a folder by calibration=….")


@dataclass
class BenchmarkConfig:
    """All keys of `panendofm benchmark`."""

    out: str = option("File for the results, .json.", "benchmark.json")
    formats: list[str] = option(f"Of {', '.join(FORMATS)}; empty: all that the release has.", [])
    batch_sizes: list[int] = option("Images per forward pass.", [1, 8], low=1)
    sides_px: list[int] = option("Sides of square images; empty: the release's.", [], low=14)
    seconds: float = option("Least time per measurement.", 1.0, above=0)
    repeats: int = option("Rounds through all formats; the median counts.", 3, low=1)
    threads: int = option("Threads of the network; 0: as many as the machine has cores.", 0, low=0)
    video: str | None = option("Video file: frames/s from file to finding, instead of batches.", None)
    head: str | None = option("video: a head of `panendofm probe` that gives the findings; null: features alone.", None)
    frames: int = option("video: at most so many frames.", 250, low=1)

    def check(self) -> None:
        unknown = [kind for kind in self.formats if kind not in FORMATS]
        if unknown:
            raise UserError(f"formats: '{unknown[0]}' is not one of {', '.join(FORMATS)}.")
        if self.head is not None and self.video is None:
            raise UserError("head needs a video to answer for: name one by video=….")
        if not self.out.endswith(".json"):
            raise UserError(f"out={self.out}: name a .json file.")
