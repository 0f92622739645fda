"""A release: the names of its files, and release.json, which says what it holds and where that came from.

What belongs together is bound together: SHA256SUMS lists every file; release.json names the checksum of the values that
each format gives when it is loaded; the header of each weights file names those of its values and of the certificate.
Against somebody who rewrites all of them only a signature of SHA256SUMS helps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from panendofm.records.documents import as_document, read_document, write_document
from panendofm.records.folder import Inside
from panendofm.records.shards import Certificate, CorpusFrames
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_checksums, sha256_of

# The weights of every format. timm's lie in the release's own folder, and config.json there leads transformers to its
# weights: so the folder as a whole is a repository that both load, here or from the Hugging Face hub.
WEIGHTS_FILES = {
    "hub": "hub/model.safetensors",
    "timm": "model.safetensors",
    "transformers": "transformers/model.safetensors",
    "onnx": "onnx/model.onnx",
    "onnx-fp16": "onnx/model_fp16.onnx",
    "onnx-int8": "onnx/model_int8.onnx",
}
# Where timm's weights lay in releases of format 2 and before.
_EARLIER_TIMM = "timm/model.safetensors"
# What else a loader needs, or reads.
_BESIDE = {
    "timm": ("config.json",),
    "transformers": (
        "config.json",
        "preprocessor_config.json",
        "transformers/config.json",
        "transformers/preprocessor_config.json",
    ),
    "onnx": ("onnx/preprocessing.json",),
}
_BESIDE_EARLIER = {
    "timm": ("timm/config.json",),
    "transformers": ("transformers/config.json", "transformers/preprocessor_config.json"),
    "onnx": ("onnx/preprocessing.json",),
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
    corpora: list[CorpusFrames] | None = None  # of the training shards
    # In the words of who made the release: on the weights that training began with, and on the images.
    start_note: str | None = None
    data_note: str | None = None


@dataclass(frozen=True)
class KeptMetric:
    """A metric of the float32 graph and of a smaller one, on the same images; `low` to `high`: of the difference."""

    metric: str
    data: str
    images: int
    before: float
    after: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def difference(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class SmallerGraph:
    """What a graph in fewer bits costs."""

    size_mb: float
    size_mb_before: float
    calibration_images: int | None = None  # int8: images that its ranges were found on
    layers_kept: list[str] = field(default_factory=list)  # int8: those that stayed in float32
    kept: list[KeptMetric] = field(default_factory=list)


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
    license: str | None = None
    certificate: Certificate | None = None
    certificate_sha256: str | None = None
    # format → checksum of the values that loading it gives; timm's may differ from weights_sha256: it folds some away
    values_sha256: dict[str, str] = field(default_factory=dict)
    checked: dict[str, dict[str, float]] = field(default_factory=dict)  # format → image size → largest difference
    checked_with: dict[str, str] = field(default_factory=dict)  # package → version
    smaller: dict[str, SmallerGraph] = field(default_factory=dict)  # format → what it costs
    # 1 bound neither the formats' values nor the certificate; 2 had no weights in the release's own folder.
    format: Literal[2, 3] = 3


def is_graph(kind: str) -> bool:
    """ONNX graphs: no file of tensors, so no header binds them to the rest; SHA256SUMS does."""
    return kind.startswith("onnx")


@dataclass(frozen=True)
class ReleaseFolder:
    """The paths of one release."""

    path: Path

    info = Inside("release.json")
    config = Inside("config.json")  # for timm and transformers
    preprocessor = Inside("preprocessor_config.json")  # for transformers
    model_card = Inside("README.md")
    checksums = Inside("SHA256SUMS")
    signature = Inside("SHA256SUMS.sig")  # of SHA256SUMS, where the release was signed

    def weights(self, kind: str) -> Path:
        return self.path / self._weights_file(kind)

    def part(self, kind: str) -> Path:
        """The folder of one format."""
        return self.weights(kind).parent

    def expected_files(self, kinds: Iterable[str]) -> set[str]:
        """Names that SHA256SUMS of a release in these formats must list."""
        beside = _BESIDE if self.config.is_file() else _BESIDE_EARLIER
        names = {self.info.name, self.model_card.name}
        for kind in kinds:
            names |= {self._weights_file(kind), *beside.get(kind, ())}
        return names

    def _weights_file(self, kind: str) -> str:
        is_earlier = kind == "timm" and (self.path / _EARLIER_TIMM).is_file()
        return _EARLIER_TIMM if is_earlier else WEIGHTS_FILES[kind]

    def is_release(self) -> bool:
        return self.info.is_file()

    def read(self) -> ReleaseInfo:
        info = read_document(ReleaseInfo, self.info, "the description of a release", "export it again, or get it anew")
        for kind, file in info.weights.items():
            if kind not in WEIGHTS_FILES or self._weights_file(kind) != file:
                raise UserError(f"{self.info}: its {kind} weights are said to lie in '{file}', where none belong.")
        if info.certificate_sha256 != certificate_checksum(info.certificate):
            raise UserError(f"{self.info}: the leakage certificate in it was changed; get the release again.")
        return info

    def write(self, info: ReleaseInfo) -> None:
        write_document(self.info, info)

    def read_checksums(self) -> dict[str, str]:
        """Name → SHA-256 of all files but the list itself and its signature."""
        if not self.checksums.is_file():
            raise UserError(
                f"the release {self.path} has no {self.checksums.name}: whether it is whole can't be told; "
                "get the release again."
            )
        return read_checksums(self.checksums)

    def fault_of(self, name: str, checksums: dict[str, str]) -> str | None:
        """What is wrong with one file."""
        if not (self.path / name).is_file():
            return "is missing"
        if name not in checksums:
            return f"is not listed in {self.checksums.name}"
        return None if sha256_of(self.path / name) == checksums[name] else "was changed"

    def refuse_changed_info(self) -> None:
        """What release.json says is believed only as long as it is the one that was released."""
        fault = self.fault_of(self.info.name, self.read_checksums())
        if fault is not None:
            raise UserError(f"{self.info} {fault}; get the release again.")


def certificate_checksum(certificate: Certificate | None) -> str | None:
    if certificate is None:
        return None
    return hashlib.sha256(json.dumps(as_document(certificate), sort_keys=True).encode()).hexdigest()
