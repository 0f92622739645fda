"""The keys of `python -m data_pipeline`; every part keeps its own beside its code."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from data_pipeline.decode import DecodeConfig
from data_pipeline.screening.config import DuplicatesConfig
from panendofm.imaging.frame_filters.config import FieldOfViewConfig, QualityConfig, TextConfig
from panendofm.imaging.images import MAX_PIXELS
from panendofm.imaging.leakage import LeakageConfig
from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError

# Below the output's folder: what phase one has done and phase two takes up; gone when the set is finished.
WORK = "work"


@dataclass
class CorpusConfig:
    """One corpus on disk."""

    adapter: str | None = option(
        "How its files are laid out: the name of a public corpus, e.g. ers, or folder; null: as its own name says.",
        None,
    )
    root: str | None = option(
        "Its folder, or a zip or tar of it; a relative one lies below data_root. null: its own name.", None
    )
    license: str | None = option("License of its images; null takes the known one.", None, was="licence")
    exclude_components: list[str] = option("Components (top folders) to leave out.", [])


@dataclass
class ScreenConfig:
    """Everything that is looked at in a frame."""

    max_megapixels: float = option(
        "Images of more than so many million pixels are left out, unread.", MAX_PIXELS / 1e6, above=0, high=1000
    )
    probe_frames: int = option("Frames of a video or sequence from which its field of view is found.", 9, low=1)
    position_box: Literal["mask", "keep"] = option("The teal box of a position display: blank it, or keep it.", "mask")
    foreign: Literal["drop", "keep"] = option(
        "Images whose colors are no endoscope's (paper, masks, screens, landscapes): drop them, or keep them.",
        "drop",
    )
    field_of_view: FieldOfViewConfig = field(default_factory=FieldOfViewConfig)
    quality: QualityConfig = field(default_factory=QualityConfig)
    text: TextConfig = field(default_factory=TextConfig)


@dataclass
class ShardsConfig:
    """The form of the shards."""

    size_mb: float = option("Size of a shard, about.", 256.0, above=0)
    longest_side_px: int = option("Frames are made smaller until their longer side is at most this.", 512, low=32)
    jpeg_quality: int = option("JPEG quality, 1-100.", 90, low=1, high=100)


@dataclass
class IdentityConfig:
    """Names of patients, videos and files are replaced by keyed hashes."""

    private_dir: str | None = option(
        "Folder for the key and the list of sources; null is the output's name with -private. Never publish it.", None
    )


@dataclass
class RayConfig:
    """Where the work runs."""

    address: str | None = option("An existing Ray cluster; null starts one on this machine.", None)
    workers: int = option("Tasks at a time; 0 is one per core of the machine or cluster.", 0, low=0)
    retries: int = option("How often a task is started again when its worker dies.", 3, low=0)
    object_store_mb: int = option("Shared memory of a local Ray, for the guarded images.", 200, low=80)
    images_per_unit: int = option("Single images that make one unit of work.", 64, low=1)


@dataclass
class PipelineConfig:
    """From corpora on disk to shards."""

    out: str = option("Folder for the shards.", "shards")
    data_root: str = option("Folder below which the corpora lie.", ".")
    corpora: dict[str, CorpusConfig] = option("The corpora, by name; of two copies the one named first is kept.", {})
    known_overlaps: Literal["skip", "keep"] = option(
        "Components that the registry knows to be part of another corpus of this run: leave out, or keep.", "skip"
    )
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    screen: ScreenConfig = field(default_factory=ScreenConfig)
    duplicates: DuplicatesConfig = field(default_factory=DuplicatesConfig)
    leakage: LeakageConfig = field(default_factory=LeakageConfig)
    shards: ShardsConfig = field(default_factory=ShardsConfig)
    identity: IdentityConfig = field(default_factory=IdentityConfig)
    ray: RayConfig = field(default_factory=RayConfig)

    @property
    def out_dir(self) -> Path:
        return Path(self.out).absolute()

    @property
    def private_dir(self) -> Path:
        if self.identity.private_dir is not None:
            return Path(self.identity.private_dir).absolute()
        return self.out_dir.with_name(self.out_dir.name + "-private")

    def root_of(self, corpus: str) -> Path:
        """The folder or archive that the user names."""
        return (Path(self.data_root) / (self.corpora[corpus].root or corpus)).absolute()

    def adapter_of(self, corpus: str) -> str:
        return self.corpora[corpus].adapter or corpus

    def check(self) -> None:
        if self.private_dir.is_relative_to(self.out_dir):
            raise UserError(
                f"identity.private_dir {self.private_dir} lies inside out, but the key must stay outside the shards; "
                "choose another folder."
            )
