"""Which block and pooling a network is read by, where that is left open: chosen in the gallery, before any query."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch.distributed as dist
from torch import Tensor

from eval_knn.config import SetConfig
from eval_knn.search.groups import Groups
from eval_knn.search.neighbors import unit_rows
from eval_knn.search.vote import class_scores
from panendofm.atlas import GallerySplit, LabeledImages
from panendofm.backbone.networks import FeatureChoice, Reading
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class Chosen:
    choice: FeatureChoice
    tried: dict[str, float] = field(default_factory=dict)  # top-1 within the gallery; empty: there was no choice


def refuse_without_gallery(split: GallerySplit) -> None:
    if split.leave_one_group_out:
        raise UserError(
            "features.block and features.pooling: auto chooses in a gallery that holds no query, and with "
            "split.leave_one_group_out every image is a query; name a block and a pooling."
        )


def choose_in_gallery(
    reading: Reading,
    features: Tensor,
    images: LabeledImages,
    split: GallerySplit,
    k: int,
    config: SetConfig,
    group: dist.ProcessGroup | None = None,
) -> Chosen:
    """The choice with the best top-1 when every gallery image is asked for by those of the other groups.

    Among equals the first, so that nothing but a gain leads away from the last block. Queries are not looked at.
    """
    if len(reading.choices) == 1:
        return Chosen(reading.choices[0])
    groups = Groups(split.groups[split.gallery], split.groups[split.gallery])
    labels = images.labels[split.gallery]
    tried: dict[str, float] = {}
    for choice in reading.choices:
        rows = unit_rows(choice.of(features).numpy()[split.gallery])
        scored = class_scores(
            *(rows, rows, labels, len(images.class_names), [k], config.temperature, config.search),
            groups,
            group,
            unit=True,
        )
        tried[choice.name] = float((scored.scores[k].argmax(axis=1) == labels).mean())
    best = max(reading.choices, key=lambda choice: tried[choice.name])  # the first of equals
    return Chosen(best, tried)
