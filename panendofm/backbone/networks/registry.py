"""Which network a word means. Every stage asks here.

PATH                     anything that `load_backbone` reads: a release, a run, a checkpoint, DINOv2 weights
timm:NAME@FILE           a timm model with weights from a local file; timm:FOLDER for a folder in timm's hub layout;
                         timm:NAME for weights in the local Hugging Face cache
transformers:FOLDER      a transformers folder of a vision encoder
endofm:FILE              Endo-FM or EndoFM-LV, an image being a clip of one frame
endossl:FILE             EndoSSL, from the Flax checkpoint (checkpoint_0) of a published folder
efficientnet-lite0       an ImageNet network whose weights come with a Python package
pixels                   no network: the image averaged down to 16 × 16 colors
global-features          no network: color layout, colors, Tamura textures and a pyramid of edge directions
untrained:PATH or NAME   the architecture of a backbone, or of a name (such as vit_small_patch14 or efficientnet-lite0),
                         with random weights

Nothing is downloaded. What describes a network (checksum, pre-processing, …) is remembered by the sizes and times of
its files, so that weights are read only when features have to be computed.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from panendofm.backbone.networks.dinov2 import backbone_source, untrained_source
from panendofm.backbone.networks.efficientnet_lite0 import (
    efficientnet_lite0_source,
    untrained_efficientnet_lite0_source,
)
from panendofm.backbone.networks.endofm import endofm_source
from panendofm.backbone.networks.endossl import endossl_source
from panendofm.backbone.networks.global_features import global_features_source
from panendofm.backbone.networks.network import Description, Loaded, Network, Source
from panendofm.backbone.networks.pixels import pixels_source
from panendofm.backbone.networks.timm_models import timm_source
from panendofm.backbone.networks.transformers_models import transformers_source
from panendofm.backbone.weights.weight_files import refuse_non_finite
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.errors import UserError

# Change it when the description of the same files would say something else than before.
_FORMAT = 2

# Words that stand alone, and words with something behind a colon. To add a family, add its line here.
WORDS: dict[str, Callable[[], Source]] = {
    "pixels": pixels_source,
    "global-features": global_features_source,
    "efficientnet-lite0": efficientnet_lite0_source,
}
UNTRAINED: dict[str, Callable[[], Source]] = {"efficientnet-lite0": untrained_efficientnet_lite0_source}
FAMILIES: dict[str, Callable[[str], Source]] = {
    "timm": timm_source,
    "transformers": transformers_source,
    "endofm": endofm_source,
    "endossl": endossl_source,
    "untrained": lambda rest: UNTRAINED[rest]() if rest in UNTRAINED else untrained_source(rest),
}


def names_a_family(word: str) -> bool:
    """Whether the word asks for another family of networks, as `timm:NAME@FILE` does."""
    return word.partition(":")[0] in FAMILIES


def find_network(word: str, cache: Path | None = None) -> Network:
    """The network that a word stands for. Its description is remembered in the folder `cache`, where there is one."""
    source = _source(word)
    reader = _Reader(source)
    description = _remembered(source, reader, cache)
    return Network(
        name=source.name,
        word=word,
        source=description.source,
        architecture=description.architecture,
        weights_sha256=description.weights_sha256,
        preprocessing=description.preprocessing,
        load=reader.load,
        outputs=description.outputs,
        step=description.step,
        path=source.path,
        certificate=description.certificate,
        baseline=source.baseline,
    )


def find_networks(words: Sequence[str], cache: Path | None = None) -> list[Network]:
    """All networks, with names that differ."""
    networks: list[Network] = []
    for word in words:
        network = find_network(word, cache)
        taken = {other.name for other in networks}
        number, name = 1, network.name
        while name in taken:
            number += 1
            name = f"{network.name}-{number}"
        networks.append(replace(network, name=name))
    return networks


def _source(word: str) -> Source:
    family, colon, rest = word.partition(":")
    if word in WORDS:
        return WORDS[word]()
    if colon and family in FAMILIES:
        return FAMILIES[family](rest)
    path = Path(word)
    if not path.exists():
        close = difflib.get_close_matches(family, FAMILIES if colon else WORDS, n=1)
        hint = f"did you mean '{close[0]}{colon}{rest}'?" if close else "check the path."
        raise UserError(f"cannot load a network from {word}: it does not exist; {hint}")
    return backbone_source(path)


class _Reader:
    """Reads weights once for describing and loading them. What was handed out is not kept in memory."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._loaded: Loaded | None = None

    def _read(self) -> Loaded:
        loaded = self._source.read()
        if self._source.path is None:  # weights of our own architecture are checked where they are loaded
            refuse_non_finite(loaded.module.state_dict(), self._source.name)
        return loaded

    def describe(self) -> Description:
        self._loaded = self._loaded or self._read()
        return self._loaded.description

    def load(self) -> nn.Module:
        loaded, self._loaded = self._loaded or self._read(), None
        return loaded.module


# ------------------------------------------------------------------------------------------------- memory


@dataclass(frozen=True)
class _Memory:
    """What was found in files while they had these names, sizes and times."""

    stamp: list[tuple[str, int, int]]
    description: Description
    format: int = _FORMAT


def _remembered(source: Source, reader: _Reader, cache: Path | None) -> Description:
    if cache is None or source.files is None:
        return reader.describe()
    what = f"{source.kind} {source.files.resolve()}"
    file = cache / "weights" / f"{hashlib.sha256(what.encode()).hexdigest()[:32]}.json"
    stamp = _stamp(source.files)
    if file.is_file():
        try:
            memory = read_document(_Memory, file, "a description of weights")
            if memory.stamp == stamp and memory.format == _FORMAT:
                return memory.description
        except UserError:
            pass  # of another version, or damaged: it is written anew
    description = reader.describe()
    write_document(file, _Memory(stamp, description))
    return description


def _stamp(path: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of a file or of a folder's files: when these are the same, so are the weights."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    stats = [(file, file.stat()) for file in files]
    return [(file.relative_to(path).as_posix(), s.st_size, s.st_mtime_ns) for file, s in stats]
