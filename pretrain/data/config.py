"""The keys of `data`, `batch` and `mask`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError

SHARD_PLACEHOLDER = "{shard}"


@dataclass
class CacheConfig:
    """Reading whole shards in sequence instead of single samples where they lie."""

    folder: str | None = option("Local folder for whole shards, one for all ranks of a node; null: no cache.", None)
    budget_gb: float = option(
        "The most that the folder may hold; what was not used for longest goes first.", 100.0, above=0
    )
    fetch_command: str | None = option(
        "Command that writes a shard to its standard output, {shard} standing for its file name, such as "
        "'aws s3 cp s3://bucket/shards/{shard} -'; null: the file in data.shards.",
        None,
    )

    def check(self) -> None:
        if self.fetch_command is None:
            return
        if self.folder is None:
            raise UserError("data.cache.fetch_command needs a data.cache.folder to fetch shards to.")
        if SHARD_PLACEHOLDER not in self.fetch_command:
            raise UserError(
                f"data.cache.fetch_command must hold {SHARD_PLACEHOLDER} where the shard's file name belongs."
            )


@dataclass
class DataConfig:
    """Where the samples are and how they are read."""

    shards: str = required(
        "Folder of shards; or WebDataset tars, images or a saved Hugging Face dataset of your own, which are used as "
        "they are; or an address: s3://BUCKET/FOLDER, https://SERVER/FOLDER, then with a cache."
    )
    sampling_weights: Any = option(
        "Share of each corpus in what is seen, by name; or a curation.parquet with a weight for each sample; "
        "empty: every sample once.",
        {},
        low=0,
        was="weights",
    )
    pairs: Literal["none", "video"] = option(
        "video: the second global crop of an image comes from another frame of its video.", "none"
    )
    workers: int = option("Processes per rank that read and augment; 0: the training process itself.", 4, low=0)
    prefetch_batches: int = option("Batches that each worker prepares ahead.", 2, low=1)
    window_shards: int | None = option(
        "Shards that are visited at a time: the order is shuffled within windows of so many; null: within an epoch. "
        "A part of the order, so a run keeps it.",
        None,
        low=1,
    )
    index: str | None = option(
        "Folder for the memory-mapped index of all samples, which is built once per shard set and shared by the ranks "
        "of a node; null: panendofm/pretrain in the user's cache folder.",
        None,
    )
    cache: CacheConfig = option("Whole shards on a local disk, for slow or remote storage.", CacheConfig())

    def check(self) -> None:
        if self.pairs == "video" and self.window_shards is not None:
            raise UserError(
                "data.pairs=video reads the frames of a video from any shard, data.window_shards from a few at a time; "
                "leave one of them out."
            )
        from panendofm.records.curation import SUFFIX  # brings pyarrow, which --help does without

        if isinstance(self.sampling_weights, str) and self.sampling_weights.endswith(SUFFIX):
            return
        numbers = self.sampling_weights.values() if isinstance(self.sampling_weights, dict) else [None]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            raise UserError(
                f"data.sampling_weights is {self.sampling_weights!r}; write a number for each corpus, such as "
                f"{{ers: 2.0}}, or the name of a file that ends in {SUFFIX}."
            )


@dataclass
class MaskConfig:
    """How much is masked."""

    crop_probability: float = option("Share of the global crops that get a mask.", 0.5, low=0, high=1)
    ratio_min: float = option("Smallest share of a masked crop's patches.", 0.1, low=0, below=1)
    ratio_max: float = option("Largest share of a masked crop's patches.", 0.5, low=0, below=1)

    def check(self) -> None:
        if self.ratio_min > self.ratio_max:
            raise UserError(f"masks.ratio_min={self.ratio_min} must not be above masks.ratio_max={self.ratio_max}.")


@dataclass
class BatchConfig:
    """How many images a step sees, and the microgroups that they come in."""

    images: int = option("Images per optimizer step, over all ranks.", 1024, low=1)
    microgroup_images: int = option(
        "Images of a microgroup: KoLeo, masks and drop path work within it. A rank takes one microgroup or several.",
        32,
        was="group_images",
        low=1,
    )
    accumulation_steps: int = option("Parts in which a step is computed, one after another.", 1, low=1)

    def check(self) -> None:
        if self.images % (self.microgroup_images * self.accumulation_steps):
            raise UserError(
                f"batch.images={self.images} does not divide into {self.accumulation_steps} parts of microgroups of "
                f"{self.microgroup_images}; change images, microgroup_images or accumulation_steps."
            )

    def microgroups_per_rank(self, world_size: int) -> int:
        """Microgroups that a rank computes at a time."""
        microgroups = self.images // self.microgroup_images // self.accumulation_steps
        if microgroups % world_size:
            raise UserError(
                f"{world_size} ranks can't share {microgroups} microgroups of batch.microgroup_images="
                f"{self.microgroup_images} evenly; use a number of ranks that divides them, or set a smaller "
                "batch.microgroup_images in a new run."
            )
        return microgroups // world_size

    def images_per_rank(self, world_size: int) -> int:
        """Images that a rank computes at a time."""
        return self.microgroup_images * self.microgroups_per_rank(world_size)
