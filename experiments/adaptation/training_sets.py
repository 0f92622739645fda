"""Shards of the unlabeled images: all that the guard keeps, and parts of them that answer how much data is needed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from panendofm.records.shards import PrivateFolder, ShardFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, make_directory, write_text

LICENSE = "research and education"
HYPERKVASIR = ("hyperkvasir", "hyperkvasir_more")
# Corpus → its folder below DATA.
CORPORA = {
    "hyperkvasir": "unlabelled/hyperkvasir",
    "polypgen": "unlabelled/polypgen",
    "cp_child": "unlabelled/cp-child",
    "wcebleedgen": "unlabelled/wcebleedgen",
    "bkai_neopolyp": "unlabelled/bkai-neopolyp",
    "nbi_polyp": "unlabelled/nbi-polyp",
    "hyperkvasir_more": "hyperkvasir-unlabelled",
}
POLYP_SETS = ("kvasir-seg", "cvc-clinicdb", "cvc-colondb", "etis-larib", "cvc-300", "polypgen")
GUARDED = ("kvasir-v1", "kvasir8", "hyperkvasir", *(f"polyps/{name}/images" for name in POLYP_SETS))
# Names of samples decide their order. The images are public, so their key may be too: all machines then train alike.
_KEY = hashlib.sha256(b"panendofm-mini").hexdigest()
# Text is left as it is: looking for it costs as much as all else, and what is compared here sees the same images.
_SCREENS = ("screen.text.inside=keep", "screen.text.reader=none")


@dataclass(frozen=True)
class Part:
    """So many images of each group of corpora; drawn at random, or the first by name."""

    groups: tuple[tuple[str, ...], ...]
    images: int  # of each group
    at_random: bool = False


ALL = "all"
CURATED = "all_curated"  # the same shards, seen as often as `data_pipeline curate` says
DEFAULT = "default"
PARTS = {
    DEFAULT: Part((HYPERKVASIR, ("polypgen",)), 1250),
    "all_300": Part((tuple(CORPORA),), 300, at_random=True),
    "all_1000": Part((tuple(CORPORA),), 1000, at_random=True),
    "all_3000": Part((tuple(CORPORA),), 3000, at_random=True),
    "hyperkvasir_1500": Part((HYPERKVASIR,), 1500, at_random=True),
    "capsule_1500": Part((("wcebleedgen",),), 1500, at_random=True),
    "other_1500": Part((("nbi_polyp", "cp_child"),), 1500, at_random=True),
}


class TrainingSets:
    """Below `folder`, made of `data` when they are first asked for."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data = data
        self.folder = folder

    def shards(self, name: str) -> ShardFolder:
        shards = ShardFolder(self.folder / (ALL if name == CURATED else name))
        if not shards.checksums.exists():
            if name == ALL:
                roots = {corpus: self.data / place for corpus, place in CORPORA.items()}
            else:
                roots = self._copy_images(name, PARTS[name])
            self._make_shards(shards, roots)
        return shards

    def sampling_words(self, name: str) -> list[str]:
        """What `pretrain` is told of how often it sees each image."""
        if name != CURATED:
            return []
        shards = self.shards(ALL)
        weights = shards.path.with_name(f"{shards.path.name}-curation") / "curation.parquet"
        if not weights.exists():
            run_stage("data_pipeline", "curate", str(shards.path))
        return [f"data.sampling_weights={weights}"]

    def images_sha256(self, name: str) -> str:
        """Of the images and their order, not of what else a manifest tells."""
        frames = pq.read_table(self.shards(name).frames, columns=["sha256"]).column("sha256").to_pylist()
        return hashlib.sha256("\n".join(frames).encode()).hexdigest()

    def _make_shards(self, shards: ShardFolder, roots: dict[str, Path]) -> None:
        private = PrivateFolder(self._private(shards.path.name))
        write_text(private.key, f"{_KEY}\n")
        guards = ",".join(str(self.data / name) for name in GUARDED)
        words = [f"leakage.guard=[{guards}]", f"out={shards.path}", f"identity.private_dir={private.path}", *_SCREENS]
        for corpus, root in roots.items():
            key = f"corpora.{corpus}"
            words += [f"{key}.adapter=folder", f"{key}.root={root}", f"{key}.license={LICENSE}"]
        run_stage("data_pipeline", "shard", *words)

    def _private(self, name: str) -> Path:
        return self.folder / f"{name}-private"

    def _copy_images(self, name: str, part: Part) -> dict[str, Path]:
        """The images of a part as they came, a folder per corpus, chosen among those that the guard kept."""
        chosen = [pair for group in part.groups for pair in _choose(self._kept(group), part)]
        target = self.folder / f"{name}-images"
        if not target.exists():
            with atomic_directory(target) as partial:
                for corpus, path in chosen:
                    shutil.copy(path, make_directory(partial / corpus) / path.name)
        return {corpus: target / corpus for corpus in sorted({corpus for corpus, _ in chosen})}

    def _kept(self, corpora: tuple[str, ...]) -> list[tuple[str, Path]]:
        """(corpus, file) of the images that stand in the shards of all, by name."""
        self.shards(ALL)
        rows = pq.read_table(PrivateFolder(self._private(ALL)).sources, columns=["corpus", "path", "kept"]).to_pylist()
        kept = [(row["corpus"], self._file(row)) for row in rows if row["kept"] and row["corpus"] in corpora]
        return sorted(kept, key=lambda pair: pair[1].name)

    def _file(self, row: dict[str, str]) -> Path:
        return self.data / CORPORA[row["corpus"]] / row["path"]


def _choose(kept: list[tuple[str, Path]], part: Part) -> list[tuple[str, Path]]:
    if not part.at_random:
        return kept[: part.images]
    drawn = np.random.default_rng(0).permutation(len(kept))[: part.images]
    return [kept[row] for row in sorted(drawn.tolist())]


def run_stage(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], check=False)
    if done.returncode != 0:
        raise UserError(f"'{' '.join(words[:2])}' has failed; the reason stands above.")
