"""Features that were computed once: files in a folder, found by what they were computed from.

The key is (checksum of the weights, checksum of the data, its cleaning, pre-processing, kind of feature). Each
entry is `DIGEST.npy` beside `DIGEST.json`, which says in plain words what the digest stands for. Files are whole or
absent; the folder may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from panendofm.backbone.features import CLS_TOKEN, FeatureKind, broadcast, rank_and_world
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.runtime.console import say, warn
from panendofm.runtime.files import atomic_file, make_directory, write_json

# Change it when the same key would give other numbers than before.
FORMAT = 1


@dataclass(frozen=True)
class FeatureKey:
    """All that features depend on."""

    weights_sha256: str
    data_sha256: str
    preprocessing: Preprocessing
    kind: FeatureKind = CLS_TOKEN
    precision: str = "float32"
    cleaning: str = ""  # the version of the cleaning; empty: images as they came

    def to_dict(self) -> dict[str, Any]:
        values = {
            "format": FORMAT,
            "weights_sha256": self.weights_sha256,
            "data_sha256": self.data_sha256,
            "preprocessing": self.preprocessing.to_dict(),
            "kind": self.kind.to_dict(),
            "precision": self.precision,
        }
        return values | ({"cleaning": self.cleaning} if self.cleaning else {})

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:32]


class FeatureCache:
    """A folder of features. Several processes may use it at once: an entry is written whole, and twice is no harm."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = make_directory(folder)

    def path_of(self, key: FeatureKey) -> Path:
        return self.folder / f"{key.digest}.npy"

    def load(self, key: FeatureKey) -> Tensor | None:
        """The stored features [N, D], or None."""
        path = self.path_of(key)
        try:
            array = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            warn(f"the cached features {path} can't be read ({error}); they are computed anew.")
            return None
        return torch.from_numpy(array)

    def store(self, key: FeatureKey, features: Tensor) -> None:
        write_json(self.path_of(key).with_suffix(".json"), {**key.to_dict(), "shape": list(features.shape)})
        with atomic_file(self.path_of(key)) as stream:
            np.save(stream, features.numpy(), allow_pickle=False)

    def load_or_compute(
        self, key: FeatureKey, compute: Callable[[], Tensor], group: dist.ProcessGroup | None = None
    ) -> Tensor:
        """The stored features, else what `compute` returns, which is stored.

        With a process group up all ranks call this. Only the first one touches the folder: its answer is sent to the
        others, so that they agree and need no common disk.
        """
        rank, world = rank_and_world(group)
        cached = self.load(key) if rank == 0 else None
        if world > 1:
            shape: list[Any] = [None if cached is None else (tuple(cached.shape), cached.dtype)]
            dist.broadcast_object_list(shape, 0 if group is None else dist.get_global_rank(group, 0), group=group)
            if shape[0] is not None:
                cached = cached if cached is not None else torch.empty(shape[0][0], dtype=shape[0][1])
                broadcast(cached, 0, group)
        if cached is not None:
            say(f"features: {cached.shape[0]} from the cache {self.path_of(key)}")
            return cached
        features = compute()
        if rank == 0:
            self.store(key, features)
        return features
