"""The configuration of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backbone.networks import BLOCK_HELP, LAST, POOLING_HELP, POOLINGS, check_words
from eval_knn.labelled_images import DataConfig
from eval_knn.neighbours import SearchConfig
from eval_knn.selection import SelectionConfig
from eval_knn.split import SplitConfig
from runtime.config import option
from runtime.errors import UserError
from runtime.files import user_cache
from scoring.intervals import BootstrapConfig


@dataclass
class FeatureConfig:
    """How features are computed."""

    batch_size: int = option("Images per forward pass and rank.", 64, low=1)
    device: str | None = option("cpu, cuda, cuda:1, …; null takes the GPU when there is one.", None)
    threads: int | None = option("Threads that decode images; null takes one per core, at most 8.", None, low=1)
    half_precision: bool = option("Compute in bfloat16 by autocast (faster on a GPU).", False)
    block: str = option(f"{BLOCK_HELP} auto chooses in the gallery alone.", LAST)
    pooling: str = option(POOLING_HELP, POOLINGS[0])

    def check(self) -> None:
        check_words(self.block, self.pooling, "features.")

    @property
    def own_output(self) -> bool:
        return (self.block, self.pooling) == (LAST, POOLINGS[0])

    def refuse_choice(self, who: str) -> None:
        """Where checkpoints of a run are compared, all are read alike: as the network gives it."""
        if not self.own_output:
            raise UserError(
                f"{who} compares checkpoints by the network's own output: leave features.block at {LAST} and "
                f"features.pooling at {POOLINGS[0]}, and read other blocks with `python -m eval_knn CKPT`."
            )


@dataclass
class WatchConfig:
    """How --watch waits."""

    poll_seconds: float = option("Seconds between two looks for new checkpoints.", 10.0, above=0)
    idle_seconds: float | None = option(
        "End after so many seconds without work; null waits for ever, 0 ends at once.", None, low=0
    )


@dataclass
class EvalConfig:
    """All keys of `python -m eval_knn`."""

    data: DataConfig = option("", DataConfig())
    split: SplitConfig = option("", SplitConfig())
    features: FeatureConfig = option("", FeatureConfig())
    ks: list[int] = option("Numbers of neighbours that vote.", [10, 20, 100, 200], low=1)
    temperature: float = option("Temperature of the neighbours' weights.", 0.07, above=0)
    search: SearchConfig = option("", SearchConfig())
    bootstrap: BootstrapConfig = option("", BootstrapConfig())
    selection: SelectionConfig = option("", SelectionConfig())
    watch: WatchConfig = option("", WatchConfig())
    out: str | None = option("Folder for results; null: RUN/eval for a run's checkpoints, else eval_results.", None)
    cache: str | None = option(
        "Folder for features and splits; null: panendofm/eval_knn in the user's cache folder.", None
    )

    def check(self) -> None:
        if not self.ks or sorted(set(self.ks)) != self.ks:
            raise UserError(f"ks must be rising numbers, not {self.ks}.")
        self.features.check()
        for name in (self.selection.metric, *self.selection.tie_breaks):
            k = name.rpartition("_k")[2]
            if k.isdigit() and int(k) not in self.ks:
                raise UserError(f"selection uses {name}, but {k} is not among ks {self.ks}; add it there.")

    def cache_folder(self) -> Path:
        return Path(self.cache) if self.cache is not None else user_cache("eval_knn")
