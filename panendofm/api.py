"""What a notebook needs, in a few functions. Everything else is in the sub-packages and stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eval_knn import EvalConfig, Evaluator
from panendofm.backbone import ImageList, device_of, extract_features
from panendofm.backbone.networks import LAST, POOLINGS, find_network, reading_of
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.records.evaluation import KnnDocument
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class Embeddings:
    """Features of images, in the order of `keys`."""

    keys: list[str]
    values: NDArray[np.float32]  # [N, D]


def embed(
    network: str | Path,
    images: str | Path | Sequence[str | Path],
    *,
    block: str = LAST,
    pooling: str = POOLINGS[0],
    batch_size: int = 64,
    device: str | None = None,
    clean: bool = False,
) -> Embeddings:
    """Features of image files, folders of images or .tar shards.

    `network` is whatever the command line takes: a release, a run, a weights file, `timm:NAME@FILE`, `pixels`, …
    `block` and `pooling` choose the tokens; `clean` crops to the field of view and removes overlay text first.
    """
    sources = [images] if isinstance(images, str | Path) else list(images)
    listed = ImageList([Path(source) for source in sources])
    found = find_network(str(network))
    reading = reading_of(found, block, pooling)
    if len(reading.choices) > 1:
        raise UserError("block and pooling: 'auto' needs labels to choose by; name one block and one pooling.")
    target = device_of(device, "device")
    features = extract_features(
        found.load().to(target),
        listed,
        found.preprocessing,
        batch_size,
        target,
        reading.kind,
        label="embed",
        clean=Cleaner() if clean else None,
    )
    return Embeddings(listed.keys, reading.choices[0].of(features).numpy())


def evaluate_knn(network: str | Path, data: str | Path, *overrides: str) -> KnnDocument:
    """kNN of a network on a labeled folder, as `python -m eval_knn` computes it; nothing is written but the cache.

    `overrides` are words such as "ks=[5, 20]" or "split.leave_one_group_out=true".
    """
    config = load_config(EvalConfig, None, [f"data.path={data}", *overrides])
    return Evaluator(config).score(find_network(str(network), config.cache_folder())).document
