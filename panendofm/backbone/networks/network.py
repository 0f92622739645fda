"""What a network is to the stages: an answer to "how are features of images made", without the weights at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from panendofm.backbone.preprocessing import Preprocessing
from panendofm.records.shards import Certificate

BASELINE = "baseline"


@dataclass(frozen=True)
class Outputs:
    """What the module gives beside one vector [B, D] per image, which every module gives when it is called.

    `blocks`: of so many last blocks `intermediate(images, last)` gives cls, register and patch tokens.
    `maps`: of so many last blocks or stages `feature_maps(images, last)` gives a map [B, C, h, w], the last one last:
    a transformer's patch tokens on their grid, or what the stages of a convolutional network put out.
    """

    blocks: int = 0
    maps: int = 0


@dataclass(frozen=True)
class Description:
    """What is known of a network once its weights were read; it is remembered, so that they need not be read again."""

    architecture: str
    weights_sha256: str
    preprocessing: Preprocessing
    outputs: Outputs
    source: str = BASELINE  # what was given: release, checkpoint, official, …
    step: int | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Loaded:
    """A network whose weights were read: a module in eval() mode, float32, on the CPU."""

    module: nn.Module
    description: Description


@dataclass(frozen=True)
class Source:
    """Where the weights of a word lie and how they are read; nothing is read yet."""

    name: str  # what tables call it
    read: Callable[[], Loaded]
    kind: str = ""  # tells apart what different readers find in the same files
    files: Path | None = None  # a file or folder that decides what is read; None: that can't be told from files
    path: Path | None = None  # of a checkpoint, release or file of weights of our own architecture
    baseline: bool = False  # no corpus of ours was used for it


@dataclass(frozen=True)
class Network:
    """Something that turns images into features. `load` reads the weights: call it once and keep the module."""

    name: str
    word: str  # how the user named it
    source: str
    architecture: str
    weights_sha256: str
    preprocessing: Preprocessing
    load: Callable[[], nn.Module]
    outputs: Outputs = Outputs()
    step: int | None = None
    path: Path | None = None
    certificate: Certificate | None = None
    baseline: bool = False

    def in_memory(self) -> Network:
        """The same network with its weights read: `load` gives the same module each time."""
        module = self.load()
        return replace(self, load=lambda: module)


def values_checksum(architecture: str, module: nn.Module) -> str:
    """SHA-256 over the architecture's name and all values by name: equal whatever file they came from."""
    digest = hashlib.sha256(architecture.encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
