"""Features of pictures by the network that a word stands for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.backbone import device_of, extract_features
from panendofm.backbone.networks import Network


def features_of(network: Network, images: Sequence[Path], device: str | None = None) -> NDArray[np.float32]:
    """[N, D], one row a picture, in their order."""
    on = device_of(device, "device")
    rows = extract_features(
        network.load().to(on), list(images), network.preprocessing, device=on, label=f"features of {network.name}"
    )
    return np.asarray(rows.numpy(), np.float32)
