"""Features of pictures by the network that a word stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backbone.features import device_of, extract_features
from backbone.load import load_backbone


@dataclass(frozen=True)
class Encoder:
    """A frozen network: what it is called, the checksum of its weights, and how it sees pictures."""

    name: str
    weights_sha256: str
    word: str
    device: str | None = None

    def features(self, images: Sequence[Path]) -> NDArray[np.float32]:
        """[N, D], one row a picture, in their order."""
        loaded = load_backbone(Path(self.word))
        on = device_of(self.device, "device")
        rows = extract_features(loaded.model.to(on), list(images), loaded.preprocessing, device=on)
        return np.asarray(rows.numpy(), np.float32)


def find_encoder(word: str, device: str | None = None) -> Encoder:
    loaded = load_backbone(Path(word))
    return Encoder(Path(word).name, loaded.weights_sha256, word, device)
