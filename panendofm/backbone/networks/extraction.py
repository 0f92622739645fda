"""Features of images by a network, computed once: every stage gets them here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor

from panendofm.backbone.feature_cache import FeatureCache, FeatureKey
from panendofm.backbone.features import CLS_TOKEN, FeatureKind, Images, device_of, extract_features
from panendofm.backbone.networks.network import Network
from panendofm.imaging.frame_filters.clean import VERSION as CLEANING
from panendofm.imaging.frame_filters.clean import Cleaner


def network_features(
    network: Network,
    images: Images | Sequence[Any],
    data_sha256: str,
    cache: FeatureCache,
    kind: FeatureKind = CLS_TOKEN,
    batch_size: int = 64,
    device: str | None = None,
    device_key: str = "device",
    threads: int | None = None,
    half_precision: bool = False,
    group: dist.ProcessGroup | None = None,
    clean: Cleaner | None = None,
) -> Tensor:
    """Features [N, D] of all images, from the cache when they are there; else the weights are read.

    `data_sha256` stands for the images and their order; `device_key` is what an error calls the device's setting.
    `clean` makes images like training frames first; features of such are kept apart.
    """
    precision = "bfloat16" if half_precision else "float32"
    cleaning = CLEANING if clean else ""
    key = FeatureKey(network.weights_sha256, data_sha256, network.preprocessing, kind, precision, cleaning)

    def compute() -> Tensor:
        on = device_of(device, device_key)
        return extract_features(
            network.load().to(on),
            images,
            network.preprocessing,
            batch_size,
            on,
            kind,
            threads=threads,
            half_precision=half_precision,
            label=f"features of {network.name}",
            group=group,
            clean=clean,
        )

    return cache.load_or_compute(key, compute, group)
