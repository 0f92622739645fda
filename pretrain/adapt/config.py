"""The keys of `python -m pretrain adapt`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import safe_name

# How often an image is shown, and the fewest and most presentations in all: below 20,000 no gain was seen, and past
# 40,000 on 2,500 images there was no further one (docs/how-to/adaptation.md).
_PRESENTATIONS_PER_IMAGE = 16
_FEWEST = 30_000
_MOST = 400_000
# Four gained more than two in kNN and in the probe, and as much as all eight (experiments/adaptation).
_BLOCKS = 4


@dataclass
class AdaptConfig:
    """From released weights and a folder of images to weights that suit those images better."""

    images: str = required("Folder of unlabeled images, or a shard set that data_pipeline made of them.")
    weights: str = required("Weights to start from, anything that load_backbone reads.")
    labeled: str = required(
        "Labeled images that judge: a folder per class, or a CSV (file,label). Copies of them are kept out of the "
        "training by construction."
    )
    out: str = required("Folder for all that is made: shards, the run, the release, adaptation.json.")
    name: str | None = option("Name of the release; null: that of the out folder.", None)
    license: str | None = option("License of the release, for its model card.", None)
    seed: int = option("Everything random follows from it.", 0)
    device: Literal["auto", "cpu", "cuda"] = option("Where to train; auto: a GPU when there is one.", "auto")
    image_px: int | None = option(
        "Side of the training crops; null: 224 with a GPU; without one 6 patches (84 px for patches of 14).",
        None,
        low=1,
    )
    presentations: int | None = option(
        "Crops that the student sees in all; null: 16 for each image, at least 30,000 and at most 400,000.",
        None,
        low=32,
    )
    trainable: str | None = option(
        "What trains of the backbone, as model.trainable: last:K, lora:R or all; null: the last four blocks.", None
    )
    train: list[str] = option("Further words for `python -m pretrain`, such as [schedule.base_lr=0.0004].", [])

    def check(self) -> None:
        if not self.out:
            raise UserError("out is empty; name a folder.")

    @property
    def folder(self) -> Path:
        return Path(self.out).absolute()

    @property
    def release_name(self) -> str:
        return self.name or safe_name(self.folder.name)

    def trainable_for(self, depth: int) -> str:
        return self.trainable or f"last:{min(_BLOCKS, depth)}"

    def presentations_for(self, images: int) -> int:
        if self.presentations is not None:
            return self.presentations
        return min(max(_PRESENTATIONS_PER_IMAGE * images, _FEWEST), _MOST)
