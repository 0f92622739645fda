"""The keys of splits and of `panendofm atlas`, and what counts as a near-duplicate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from panendofm.imaging.frame_filters.config import VerdictConfig
from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError

# Re-encoded or resized copies differ in fewer than 20 of the 256 bits, frames of one scene a moment apart in up to
# about 50. Of 384 real images the closest unrelated pair is 58 bits apart.
NEAR_DUPLICATE_BITS = 52
# Classes of the PanEndoX tasks: of our taxonomy, with synonyms merged; or exactly those of the paper.
TaskSet = Literal["clean", "published"]
_BITS_HELP = "Images whose 256-bit hashes differ in at most so many bits are one group."


@dataclass(frozen=True)
class SplitConfig:
    """Training, validation and test."""

    train: float = option("Share of the images for training.", 0.75, above=0, below=1)
    validation: float = option("Share for choosing heads and stopping.", 0.10, above=0, below=1)
    test: float = option("Share for the metrics.", 0.15, above=0, below=1)
    seed: int = option("Another seed gives another split.", 0)
    near_duplicate_bits: int = option(
        f"{_BITS_HELP} An atlas has its groups already.", NEAR_DUPLICATE_BITS, low=0, high=127
    )

    def check(self) -> None:
        if abs(sum(self.shares) - 1) > 1e-6:
            raise UserError(f"split: train, validation and test must add up to 1, not {self.shares}.")

    @property
    def shares(self) -> tuple[float, float, float]:
        return self.train, self.validation, self.test


@dataclass
class GallerySplitConfig:
    """Gallery and queries; once the split file exists, the file decides."""

    file: str | None = option("The split file; null keeps one in the cache folder, found by data and settings.", None)
    gallery_fraction: float = option("Share of each class that goes to the gallery.", 0.5, above=0, below=1)
    near_duplicate_bits: int = option(_BITS_HELP, NEAR_DUPLICATE_BITS, low=0, high=127)
    seed: int = option("Another seed gives another split.", 0)
    leave_one_group_out: bool = option(
        "Every image is a query against all images but those of its own group; nothing is held out.", False
    )


@dataclass
class AtlasConfig:
    """All keys of `panendofm atlas`."""

    out: str = option("File to write; beside it come the split and the reports.", "atlas.parquet")
    mappings: str | None = option("Folder with mappings of further datasets (YAML).", None)
    codes: dict[str, str] = option("Tables of codes by dataset, where they do not lie beside it: codes.ers=PATH.", {})
    tasks: TaskSet = option("Classes that the counts of tasks are about: clean, or published as in the paper.", "clean")
    quality: VerdictConfig = field(default_factory=VerdictConfig)
    seed: int = option("Seed of the split.", 0)
    near_duplicate_bits: int = option(_BITS_HELP, NEAR_DUPLICATE_BITS, low=0, high=127)

    def check(self) -> None:
        check_atlas_name(self.out)


@dataclass
class ListConfig:
    """All keys of `panendofm atlas list`."""

    mappings: str | None = option("Folder with mappings of further datasets (YAML).", None)


@dataclass
class CodesConfig:
    """All keys of `panendofm atlas codes`."""

    out: str = option("Folder for the tables; one that is there keeps what it says.", ".")
    mappings: str | None = option("Folder with mappings of further datasets (YAML).", None)


@dataclass
class ExportConfig:
    """All keys of `panendofm atlas export`."""

    out: str = option("Folder to write.", "atlas_release")
    name: str = option("Name of the release.", "PanEndoAtlas, rebuilt")
    version: str = option("Version of the release.", "1.0.0")


@dataclass
class ImportConfig:
    """All keys of `panendofm atlas import`."""

    out: str = option("File to write; beside it come the split and the reports.", "atlas.parquet")
    mappings: str | None = option("Folder with mappings of further datasets (YAML).", None)

    def check(self) -> None:
        check_atlas_name(self.out)


def check_atlas_name(out: str) -> None:
    if not out.endswith(".parquet"):
        raise UserError(f"out={out}: the atlas is a Parquet file; let its name end in .parquet.")
