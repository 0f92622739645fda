"""The configuration of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from panendofm.atlas import GallerySplitConfig
from panendofm.backbone.networks import BLOCK_HELP, DEVICE_HELP, LAST, POOLING_HELP, POOLINGS, check_words
from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import user_cache
from panendofm.scoring.statistics.config import BootstrapConfig


@dataclass
class SelectionConfig:
    """How the checkpoint is chosen and when training stops."""

    metric: str = option("What is compared: top1_k20, top5_k100, mcc_k20, … (metric and k) or rankme.", "top1_k20")
    equal_within: float = option(
        "A checkpoint may be chosen when its metric is at most this below the highest of the whole run; 0: the same.",
        0.002,
        low=0,
        high=1,
    )
    tie_breaks: list[str] = option(
        "What decides among those before the metric itself does, in this order; label-free metrics such as rankme "
        "decide nothing unless they are named here.",
        [],
    )
    confidence: float = option("Confidence of 'beyond noise'.", 0.95, above=0, below=1)
    bootstrap_samples: int = option("Samples of the paired bootstrap.", 2000, low=1)
    patience_evaluations: int = option(
        "Stop after so many evaluations in a row without a gain; 0 never stops.", 5, low=0
    )
    minimum_gain: float = option("A smaller rise of the metric is no gain.", 0.002, low=0)
    first_stop_evaluation: int = option("Don't stop before so many evaluations.", 3, low=0)

    def check(self) -> None:
        from panendofm.records.evaluation import split_metric  # brings NumPy and pyarrow, which --help does without

        for name in (self.metric, *self.tie_breaks):
            split_metric(name)
            if name == "alpha_req":  # good near 1, worse on both sides
                raise UserError("selection: alpha_req can't choose, for more of it is not better; name another metric.")


@dataclass
class SearchConfig:
    """How neighbors are searched."""

    approximate_above: int = option(
        "Gallery rows past which an approximate index is used, its recall printed.", 5_000_000, low=1
    )
    approximate_index: Literal["ivf", "hnsw"] = option("Which approximate index.", "ivf")
    recall_queries: int = option("Queries on which the recall of an approximate index is measured.", 200, low=1)


@dataclass
class DataConfig:
    """Which labeled images."""

    path: str = option(
        "Folder with one folder of images per class or with .tar shards of labeled images, or a CSV (file,label).",
        "data/kvasir-dataset-v2",
    )
    label_key: str = option(
        "Shards: the key of a sample's .json that names its class (a .cls file is read too).", "label"
    )
    group_key: str = option("Shards: the key of a sample's .json that names its patient or video, if any.", "group")
    clean: bool | None = option(
        "Read images as training frames are: cut to the field of view, without position box and text. null: as in "
        "the run's other evaluations; without any, true with watch and false otherwise.",
        None,
    )


@dataclass
class FeatureConfig:
    """How features are computed."""

    batch_size: int = option("Images per forward pass and rank.", 64, low=1)
    device: str = option(DEVICE_HELP, "auto")
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
class SetConfig:
    """One labeled set: its images, how they are split, and how networks are scored on it."""

    data: DataConfig = option("", DataConfig())
    split: GallerySplitConfig = option("", GallerySplitConfig())
    features: FeatureConfig = option("", FeatureConfig())
    ks: list[int] = option("Numbers of neighbors that vote.", [10, 20, 100, 200], low=1)
    temperature: float = option("Temperature of the neighbors' weights.", 0.07, above=0)
    search: SearchConfig = option("", SearchConfig())
    bootstrap: BootstrapConfig = option("", BootstrapConfig())
    selection: SelectionConfig = option("", SelectionConfig())
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


@dataclass
class NamedSetConfig(SetConfig):
    """One of several sets that the checkpoints of a run are scored on."""

    veto_margin: float | None = option(
        "A checkpoint is not chosen when its selection.metric on this set is below that of step 0 by more than this "
        "and by more than noise; null: the set is shown and decides nothing.",
        None,
        low=0,
    )


@dataclass(frozen=True)
class EvaluationSets:
    """The sets that the checkpoints of a run are scored on: one selects, the others are witnesses."""

    selecting: SetConfig
    selecting_name: str  # empty: the only one, or the one beside the named sets
    witnesses: dict[str, NamedSetConfig]

    @property
    def selection(self) -> SelectionConfig:
        return self.selecting.selection


@dataclass
class SeveralSetsConfig:
    """Sets beside the single one, for whoever scores the checkpoints of a run."""

    evaluations: dict[str, NamedSetConfig] = option(
        "Further labeled sets by name; every checkpoint is scored on each of them.", {}
    )
    select_by: str | None = option("The one of `evaluations` that selects; null: the single set does.", None)

    def sets_with(self, single: SetConfig) -> EvaluationSets:
        """Which set selects: the single one, unless `select_by` names another, which then stands in for it."""
        from panendofm.records.evaluation import check_set_name  # brings NumPy and pyarrow, which --help does without

        for name in self.evaluations:
            check_set_name(name)
        witnesses = {name: _cleaned(one) for name, one in self.evaluations.items()}
        if self.select_by is None:
            return EvaluationSets(single, "", witnesses)
        if self.select_by not in witnesses:
            there = ", ".join(witnesses) or "none"
            raise UserError(f"select_by={self.select_by}: there is no such set in evaluations ({there}).")
        selecting = witnesses.pop(self.select_by)
        if selecting.veto_margin is not None:
            raise UserError(
                f"evaluations.{self.select_by}.veto_margin: this set selects, so it can't veto; remove the key "
                "(regression_guard.margin is for the set that selects)."
            )
        return EvaluationSets(selecting, self.select_by, witnesses)


def _cleaned(one: NamedSetConfig) -> NamedSetConfig:
    """Images are read as training frames are, unless the set says otherwise: as for the monitor's single set."""
    clean = True if one.data.clean is None else one.data.clean
    return replace(one, data=replace(one.data, clean=clean))


@dataclass
class WatchConfig(SeveralSetsConfig):
    """How a watcher waits, and which further sets it scores."""

    poll_seconds: float = option("Seconds between two looks for new checkpoints.", 10.0, above=0)
    idle_seconds: float | None = option(
        "End after so many seconds without work; null waits for ever, 0 ends at once.", None, low=0
    )


@dataclass
class EvalConfig(SetConfig):
    """All keys of `python -m eval_knn`."""

    plots: bool = option("Draw neighbors, confusion matrix, map and curve too.", False)
    watch: bool = option("Evaluate each new checkpoint of one run, and keep its 'best' link.", False)
    watcher: WatchConfig = option("", WatchConfig())
    out: str | None = option("Folder for results; null: RUN/eval for a run's checkpoints, else eval_results.", None)
