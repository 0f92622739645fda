"""The keys of the verbs that score, check and compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from omegaconf import MISSING

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.vqa.bench.config import ImageConfig


@dataclass
class ScoreConfig:
    """Answers to a bench → tables and a page."""

    out: str = option("Folder for tables and the page.", "results")
    allow_partial: bool = option("Score the questions that all contestants have.", False)
    parser: Literal["cascade", "first_letter"] = option("How letters are read from replies.", "cascade")
    contamination: str = option("Report of 'vqa contamination'.", "")
    people: str = option("Folder of readers' answers.", "")
    ratings: str = option("Folder of ratings of texts.", "")
    over_interpretation: str = option("Folder of ratings with rubric=over_interpretation.", "")
    complete_cases: bool = option("Beside ours, only images that every model answered, as papers do.", False)
    bootstrap: BootstrapConfig = field(default_factory=BootstrapConfig)

    def refuse(self, title: str, *keys: str) -> None:
        """For a leaderboard that has no use for some keys."""
        for key in keys:
            if getattr(self, key):
                raise UserError(f"{key}: the leaderboard of {title} has no use for it; leave it out.")


@dataclass
class CheckConfig:
    """A bench that is looked at for shortcuts."""

    bootstrap: BootstrapConfig = field(default_factory=BootstrapConfig)


@dataclass
class ContaminationConfig:
    """Where a bench's images are looked for."""

    shards: list[str] = option("Shard sets.", [])
    images: list[str] = option("Folders of images.", [])
    out: str = option("Report to write.", "contamination.json")

    def check(self) -> None:
        if not self.shards and not self.images:
            raise UserError("name what to look in: shards=[DIR] or images=[DIR].")


@dataclass
class EncoderConfig:
    """An encoder that answers a bench."""

    data: str = required("The atlas that the bench was built from, or another one with the same labels.")
    out: str = required("Folder for the answers.")
    network: str = option(
        "The network: a release, a run, or a network spec such as timm:NAME@FILE.", MISSING, was="weights"
    )
    regions: str = option("Regions besides those of the datasets: a JSONL list or a folder of LabelMe files.", "")
    head: Literal["linear", "nearest"] = option("linear: logistic regression; nearest: the most alike image.", "linear")
    strength: float = option("Inverse of the L2 penalty of the logistic regression.", 1.0)
    name: str = option("What tables call it; empty: the network's name and the head.", "")
    device: str | None = option("Where the network runs; auto takes a GPU when there is one.", "auto")
    images: ImageConfig = option("What an image must be like.", ImageConfig(), was="pictures")


@dataclass
class SynthesizeConfig:
    """Made-up contestants and readers."""

    out: str = required("Folder for answers/ and people/.")
