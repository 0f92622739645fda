"""A release: the names of its files, and release.json, which says what it holds and where that came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from records.documents import read_document, write_document
from records.shards import Certificate
from runtime.errors import UserError

RELEASE_FORMAT = 1
# The weights of every format, below the release's folder; what else a format needs lies beside its weights.
WEIGHTS_FILES = {
    "hub": "hub/model.safetensors",
    "timm": "timm/model.safetensors",
    "transformers": "transformers/model.safetensors",
    "onnx": "onnx/model.onnx",
}


@dataclass(frozen=True)
class ReleaseSource:
    """What the weights were made from, as far as it may be published: no paths."""

    kind: str
    step: int | None = None
    role: str | None = None
    images_seen: int | None = None
    shards_sha256: str | None = None
    start_share: float | None = None  # of the weights that the run began with, where they were averaged


@dataclass(frozen=True)
class ReleaseInfo:
    """release.json."""

    name: str
    architecture: str
    vit: dict[str, Any]
    preprocessing: dict[str, Any]
    dtype: str
    weights: dict[str, str]  # format → file
    weights_sha256: str
    source: ReleaseSource
    licence: str | None = None
    certificate: Certificate | None = None
    checked: dict[str, dict[str, float]] = field(default_factory=dict)  # format → image size → largest difference
    checked_with: dict[str, str] = field(default_factory=dict)  # package → version
    format: int = RELEASE_FORMAT


@dataclass(frozen=True)
class ReleaseFolder:
    """The paths of one release."""

    path: Path

    @property
    def info(self) -> Path:
        return self.path / "release.json"

    @property
    def model_card(self) -> Path:
        return self.path / "README.md"

    def weights(self, kind: str) -> Path:
        return self.path / WEIGHTS_FILES[kind]

    def part(self, kind: str) -> Path:
        """The folder of one format."""
        return self.weights(kind).parent

    def is_release(self) -> bool:
        return self.info.is_file()

    def read(self) -> ReleaseInfo:
        info = read_document(ReleaseInfo, self.info, "the description of a release")
        if info.format != RELEASE_FORMAT:
            raise UserError(
                f"cannot read {self.info}: its format is {info.format}, this version reads {RELEASE_FORMAT}."
            )
        return info

    def write(self, info: ReleaseInfo) -> None:
        write_document(self.info, info)
