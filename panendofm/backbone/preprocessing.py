"""From an image to the network's input: resize, center crop, normalize.

The same numbers as torchvision's Resize (bicubic, antialiased) + CenterCrop + ToTensor + Normalize on PIL images,
without torchvision.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from panendofm.imaging.images import RESAMPLING_NUMBERS, Interpolation, open_image
from panendofm.records.documents import parse_document
from panendofm.runtime.errors import UserError

# Beyond any network's; a damaged file may ask for more than the memory holds.
MAX_SIDE_PX = 8192
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """What a network expects of its input; kept beside its weights."""

    resize_px: int = 256
    crop_px: int = 224
    interpolation: Interpolation = "bicubic"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    squash: bool = False  # both sides become resize_px, whatever the image's shape; else the short one does

    def __post_init__(self) -> None:
        # JSON has no tuples: equal content must give equal objects and equal cache keys.
        object.__setattr__(self, "mean", tuple(float(v) for v in self.mean))
        object.__setattr__(self, "std", tuple(float(v) for v in self.std))
        if not (1 <= self.resize_px <= MAX_SIDE_PX and 1 <= self.crop_px <= MAX_SIDE_PX):
            raise UserError(
                f"resize_px ({self.resize_px}) and crop_px ({self.crop_px}) must lie between 1 and {MAX_SIDE_PX}."
            )
        if self.interpolation not in get_args(Interpolation):
            raise UserError(f"interpolation '{self.interpolation}' is not one of {', '.join(get_args(Interpolation))}.")
        finite = all(map(math.isfinite, (*self.mean, *self.std)))
        if len(self.mean) != 3 or len(self.std) != 3 or not finite or min(self.std) <= 0:
            raise UserError(f"mean {self.mean} and std {self.std} must be three finite numbers each, std above 0.")

    def __call__(self, image: Image.Image | Path | str) -> Tensor:
        if not isinstance(image, Image.Image):
            image = open_image(image)
        pixels = np.array(self.crop(image))  # [crop, crop, 3] uint8
        tensor = torch.from_numpy(pixels).permute(2, 0, 1).contiguous().float().div_(255)  # [3, crop, crop]
        mean, std = torch.tensor(self.mean)[:, None, None], torch.tensor(self.std)[:, None, None]
        return tensor.sub_(mean).div_(std)

    def crop(self, image: Image.Image) -> Image.Image:
        """The part of the image that the network sees, before normalization."""
        image = image.convert("RGB")
        width, height = image.size
        short = min(width, height)
        # The long side is cut off, not rounded, as torchvision does.
        size = (int(self.resize_px * width / short), int(self.resize_px * height / short))
        if self.squash:
            size = (self.resize_px, self.resize_px)
        if size != image.size:
            image = image.resize(size, Image.Resampling(RESAMPLING_NUMBERS[self.interpolation]))
        return _center_crop(image, self.crop_px)

    def at_crop(self, crop_px: int) -> Preprocessing:
        """The same for another input size: the crop shows as much of the image as before."""
        return replace(self, resize_px=round(crop_px * self.resize_px / self.crop_px), crop_px=crop_px)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back to an equal object."""
        values = {**asdict(self), "mean": list(self.mean), "std": list(self.std)}
        if not self.squash:  # said only where it holds: what was stored before it existed stays as it is
            del values["squash"]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Preprocessing:
        unknown = sorted(set(values) - set(cls.__dataclass_fields__))
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise UserError(f"the pre-processing has an unknown key '{unknown[0]}'; there are: {known}.")
        return parse_document(cls, values, "the stored pre-processing", "a pre-processing")


def transformers_preprocessing(values: dict[str, Any], file: Path, image_px: int) -> Preprocessing:
    """What a preprocessor_config.json (`file`) says: a short side and a crop, or both sides at once (squashed).

    `image_px` is the side that the model's own config names, for what the file leaves out.
    """
    size, crop = values.get("size") or image_px, values.get("crop_size")
    squash = isinstance(size, dict) and "shortest_edge" not in size
    names = {number: name for name, number in RESAMPLING_NUMBERS.items()}
    try:
        resize_px = int(size.get("shortest_edge") or size["height"]) if isinstance(size, dict) else int(size)
        crop_px = int(crop["height"] if isinstance(crop, dict) else crop) if crop else resize_px if squash else image_px
        return Preprocessing(
            resize_px,
            crop_px,
            names[int(values.get("resample", RESAMPLING_NUMBERS["bicubic"]))],
            tuple(values.get("image_mean", IMAGENET_MEAN)),
            tuple(values.get("image_std", IMAGENET_STD)),
            squash,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file}: its size, crop_size, resample, mean or std can't be understood ({error}).") from error


def _center_crop(image: Image.Image, side: int) -> Image.Image:
    width, height = image.size
    if width < side or height < side:  # black on both sides, as torchvision pads
        left, top = max(0, (side - width) // 2), max(0, (side - height) // 2)
        right, bottom = max(0, (side - width + 1) // 2), max(0, (side - height + 1) // 2)
        image = ImageOps.expand(image, (left, top, right, bottom))
        width, height = image.size
    left, top = round((width - side) / 2), round((height - side) / 2)
    return image.crop((left, top, left + side, top + side))
