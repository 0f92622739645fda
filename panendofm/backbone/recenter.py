"""`recenter`: the same network with features whose mean over a domain is zero.

Cosines tell images apart only where features do not all point the same way. On a narrow domain, or after a network
was cut, they may: one common vector then holds nearly all of their length. It is taken out where the network already
has a place for it, the bias of its final norm, so every format and every program loads the result as before:

    features = weight · normalized + bias        bias ← bias − mean of the cls features over the images

Linear heads on standardized features see no difference; kNN, KoLeo and an anchor by cosine do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from panendofm.backbone.embed import ImageList
from panendofm.backbone.features import Images, extract_features
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.weights.load import LoadedBackbone, weights_checksum
from panendofm.runtime.errors import UserError
from panendofm.scoring.features.spectrum import common_share

_MOST_SHARDS = 32


@dataclass(frozen=True)
class Recentered:
    """`common_before` and `common_after`: how much of the features' length is common to all, 0 to 1."""

    backbone: LoadedBackbone
    common_before: float
    common_after: float
    images: int


def recentered(
    loaded: LoadedBackbone,
    images: Images,
    preprocessing: Preprocessing | None = None,
    batch_size: int = 64,
    device: torch.device | None = None,
) -> Recentered:
    """`loaded`, changed in place in the bias of its final norm alone."""
    preprocessing = preprocessing or loaded.preprocessing
    model = loaded.model.to(device) if device is not None else loaded.model
    if preprocessing.crop_px % model.config.patch_px:
        raise UserError(
            f"images of {preprocessing.crop_px} pixels do not divide into patches of {model.config.patch_px}; name a "
            "multiple by crop_px."
        )
    features = extract_features(model, images, preprocessing, batch_size, device, label="recenter").double()  # [N, D]
    mean = features.mean(dim=0)  # [D]
    model.cpu()
    with torch.no_grad():
        model.norm.bias.sub_(mean.to(model.norm.bias.dtype))
    changed = replace(
        loaded, preprocessing=preprocessing, weights_sha256=weights_checksum(model.config, model.state_dict())
    )
    shares = common_share(features.numpy()), common_share((features - mean.float()).numpy())
    return Recentered(changed, *shares, len(features))


def some_images(sources: Sequence[Path], most: int) -> Images:
    """At most so many images of images, folders and shards, evenly chosen.

    Of a folder of shards some are opened: each is a fair sample of all, and ten million headers take hours to read.
    """
    chosen: list[Path] = []
    for source in sources:
        shards = sorted(source.glob("*.tar")) if source.is_dir() else []
        step = -(-len(shards) // _MOST_SHARDS)
        chosen += shards[::step] if step > 1 else [source]
    return evenly(ImageList(chosen), most)


def evenly(images: Images, most: int) -> Images:
    """At most so many of them, from the first to the last at equal distances."""
    return images if len(images) <= most else _Some(images, [i * len(images) // most for i in range(most)])


@dataclass(frozen=True)
class _Some:
    images: Images
    places: list[int]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Any:
        return self.images[self.places[index]]
