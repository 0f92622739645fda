"""The keys of `panendofm probe`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from panendofm.atlas import SplitConfig, TaskSet
from panendofm.backbone.networks import BLOCK_HELP, DEVICE_HELP, LAST, POOLING_HELP, POOLINGS, check_words
from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig


@dataclass(frozen=True)
class TrainingConfig:
    """The published recipe; where the paper is silent, our choice is named as such."""

    weight_decay: float = option("AdamW's decoupled weight decay.", 0.01, low=0)
    batch_size: int = option("Images per step.", 128, low=1)
    first_cycle_epochs: int = option("Epochs of the first cosine cycle (our choice).", 10, low=1)
    cycle_growth: int = option("Every cycle is this many times as long as the one before.", 2, low=1)
    floor_learning_rate: float = option("Learning rate at the end of a cycle.", 1e-6, low=0)
    patience_epochs: int = option("Epochs without a better validation AUC after which a head stops.", 10, low=1)
    max_epochs: int = option("No head trains longer (our choice).", 200, low=1)
    seed: int = option("For the first weights and the order of the images.", 0)


PUBLISHED_LEARNING_RATES = [1e-4, 5e-5, 1e-5, 5e-6, 1e-6]


@dataclass(frozen=True)
class GridConfig:
    """What is tried. `published` is the paper's grid; `converged` adds what it takes to train to the end."""

    learning_rates: list[float] = option("Learning rates of the published protocol.", PUBLISHED_LEARNING_RATES, above=0)
    converged_learning_rates: list[float] = option(
        "Learning rates of the converged protocol.", [1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2], above=0
    )
    converged_strengths: list[float] = option(
        "Logistic regression of the converged protocol: weights of the L2 penalty.",
        [1e-4, 1e-3, 1e-2, 1e-1, 1.0],
        above=0,
    )
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def check(self) -> None:
        for name in ("learning_rates", "converged_learning_rates", "converged_strengths"):
            values = getattr(self, name)
            if not values:
                raise UserError(f"grid.{name} is empty; it must hold at least one value.")


PROTOCOL = "protocol"  # a block and pooling that nobody named


@dataclass
class ProbeConfig:
    task: str = option("all, the name of a task, or several parted by commas; a task of one's own needs none.", "all")
    tasks: TaskSet = option(
        "Classes of the tasks. clean: those of the taxonomy, synonyms merged. published: exactly those that the paper "
        "lists.",
        "clean",
    )
    data: str = option("The atlas (.parquet), a CSV (file,label) or a folder of class folders.", "atlas.parquet")
    out: str = option("Folder for the results.", "probe_results")
    clean: bool = option(
        "Read images as training frames are: cut to the field of view, without position box and text. The table then "
        "gives the metrics of images as they came beside them.",
        False,
    )
    protocol: Literal["published", "converged"] = option(
        "published follows the paper; converged adds wider grids, several blocks and logistic regression.", "published"
    )
    block: str = option(f"{BLOCK_HELP} auto chooses on validation. {PROTOCOL}: what the protocol reads.", PROTOCOL)
    pooling: str = option(f"{POOLING_HELP} {PROTOCOL}: what the protocol reads.", PROTOCOL)
    grid: GridConfig = field(default_factory=GridConfig)
    seeds: int = option("How often a head is trained, each time with another seed; the first is used.", 5, low=1)
    leave_one_dataset_out: bool = option("Also train on all datasets but one and test on that one, for each.", False)
    published_values: bool = option("Show the values that the paper prints, apart from ours.", True)
    split: SplitConfig = field(default_factory=SplitConfig)
    bootstrap: BootstrapConfig = option("", BootstrapConfig())
    batch_size: int = option("Images per forward pass when features are extracted.", 64, low=1)
    device: str = option(DEVICE_HELP, "auto")
    cache: str = option("Folder of extracted features; empty: below the results.", "")
    label_fractions: list[float] = option(
        "Shares of the training labels to train on as well, such as [0.01,0.05,0.1,0.25,0.5,1].", [], above=0, high=1
    )
    pretraining_corpora: list[str] = option(
        "Corpora that the networks were pretrained on; metrics are also given without the datasets that overlap.", []
    )
    pretraining_images: str = option(
        "CSV with a column sha256 or file: images that the networks have seen; metrics are also given without.", ""
    )

    def check(self) -> None:
        check_words(*(self.named() or (LAST, POOLINGS[0])))

    def named(self) -> tuple[str, str] | None:
        """Block and pooling, where the user names one of them: the other is then the last, or cls."""
        if self.block == self.pooling == PROTOCOL:
            return None
        block = LAST if self.block == PROTOCOL else self.block
        return block, POOLINGS[0] if self.pooling == PROTOCOL else self.pooling


@dataclass
class HeadConfig:
    """How a trained head is used."""

    network: str | None = option("The network spec, when it is not where it was at training.", None, was="weights")
    device: str = option(DEVICE_HELP, "auto")


@dataclass
class PredictConfig(HeadConfig):
    """All keys of `panendofm probe predict`."""

    out: str = option("CSV to write; - prints the lines.", "predictions.csv")
    root: str | None = option("Folder that the files of a CSV are relative to.", None)


@dataclass
class TimeConfig(PredictConfig):
    """All keys of `panendofm probe time`."""

    repeats: int = option("Passes over all images; the middle one counts.", 3, low=1)


@dataclass
class ShortcutConfig(HeadConfig):
    """All keys of `panendofm probe shortcut`."""

    out: str = option("File to write.", "shortcut.json")


@dataclass
class ReportConfig(HeadConfig):
    """All keys of `panendofm probe report`."""

    out: str = option("Folder for report.json, report.txt and report.html.", "video_report")
    fps: float = option("Frames per second that are looked at.", 5.0, above=0)
    window_seconds: float = option("Length of the window that smooths the answers.", 1.0, low=0)
    minimum_confidence: float = option("Frames below it are called uncertain.", 0.25, low=0, high=1)
    minimum_seconds: float = option("Shorter segments join their neighbors.", 1.0, low=0)
    truth: str | None = option("CSV start_seconds,end_seconds,label of true events, to compare with.", None)
