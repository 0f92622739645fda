"""The keys of `panendofm dense`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from panendofm.atlas import SplitConfig
from panendofm.backbone.networks import DEVICE_HELP
from panendofm.linear_probe.config import HeadConfig
from panendofm.runtime.config import option
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig

SEGMENTATION_HEADS = ("linear", "linear-4", "decoder", "published")
CENTER = "center"
HEADS = (*SEGMENTATION_HEADS, CENTER)
SplitMode = Literal["groups", "pranet", "leave-one-center-out"]


@dataclass(frozen=True)
class FitConfig:
    strengths: list[float] = option("Regularization λ that linear heads try.", [1e-4, 1e-3, 1e-2, 1e-1], above=0)
    tolerance: float = option("Linear heads: largest entry of the gradient at the end.", 3e-4, above=0)
    max_iterations: int = option("Linear heads: L-BFGS iterations at most.", 100, low=1)
    max_fields: int = option("Fields of the grid that linear heads are fitted on, at most.", 50_000, low=100)
    batch_images: int = option("Images per step of decoder and published.", 16, low=1, was="batch_pictures")
    decoder_steps: int = option("Steps of the decoder.", 400, low=1)
    decoder_learning_rate: float = option("AdamW's learning rate for the decoder.", 2e-3, above=0)
    published_steps: int = option("Steps of DINOv2's recipe, which has 40,000.", 40_000, low=1)
    seed: int = option("For first weights, samples and order.", 0)


@dataclass
class DenseConfig:
    data: list[str] = option("Folders, DATASET:PATH or an atlas (.parquet) to train and test on.", [])
    test: list[str] = option("Further datasets that are tested only, for a cross-dataset table.", [])
    out: str = option("Folder for the results.", "dense_results")
    classes: Literal["polyp", "all"] = option(
        "polyp: polyps only; all: every finding that has masks or boxes.", "polyp"
    )
    heads: list[str] = option(f"Heads to try: {', '.join(HEADS)}.", ["linear", "linear-4", CENTER])
    split_by: SplitMode = option(
        "groups: patients, videos and near-duplicates stay whole; pranet: the folders of that re-pack, which leak; "
        "leave-one-center-out: each center in turn is the test.",
        "groups",
    )
    split: SplitConfig = field(default_factory=lambda: SplitConfig(train=0.55, validation=0.15, test=0.30))
    fit: FitConfig = field(default_factory=FitConfig)
    side_px: int = option("Side that images are squashed to, about; rounded to what the network takes.", 384, low=16)
    unusable: Literal["refuse", "leave-out"] = option("Images without a mask, or with one of another size.", "refuse")
    batch_size: int = option("Images per forward pass.", 16, low=1)
    bootstrap: BootstrapConfig = option("", BootstrapConfig())
    device: str = option(f"{DEVICE_HELP} Heads are fitted on the CPU.", "auto")
    cache: str = option("Folder of feature maps; empty: below the results.", "")

    def check(self) -> None:
        if "centre" in self.heads:
            warn("heads: 'centre' is called 'center' now; please rename it.")
            self.heads = [CENTER if name == "centre" else name for name in self.heads]
        for name in self.heads:
            if name not in HEADS:
                raise UserError(f"heads: there is no head '{name}'; there are {', '.join(HEADS)}.")
        if not any(name in SEGMENTATION_HEADS for name in self.heads):
            raise UserError(f"heads: name at least one of {', '.join(SEGMENTATION_HEADS)}; boxes of parts need it.")


@dataclass
class DensePredictConfig(HeadConfig):
    """All keys of `panendofm dense predict`."""

    out: str = option("Folder to write, or the video.", "dense_predictions")
    video: str | None = option("Video to draw outlines into, instead of images.", None)
