"""`curate`: features of all frames, their clusters, and curation.parquet with a weight for each.

Run again it goes on where it was interrupted, and ends with the same bytes whatever the number of workers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data_pipeline.curate.balance import balanced_weights, too_few_left
from data_pipeline.curate.clustering import Hierarchy, cluster
from data_pipeline.curate.config import CurateConfig
from data_pipeline.curate.duplicates import best_matches, choose_threshold, duplicates
from data_pipeline.curate.features import frame_features
from data_pipeline.curate.mapped import Features
from data_pipeline.curate.page import write_page
from data_pipeline.curate.rows import frame_rows, videos_and_seconds
from panendofm.records.curation import CurationFolder, write_curation
from panendofm.runtime.config import save_config
from panendofm.runtime.console import say
from panendofm.runtime.files import make_directory, remove_leftovers
from panendofm.runtime.locks import directory_lock


def curate(shards: Path, config: CurateConfig) -> CurationFolder:
    """Write the curation of a shard set; see the module's text."""
    folder = config.folder(shards)
    with directory_lock(make_directory(folder.path)):
        remove_leftovers(folder.path)
        save_config(config, folder.config)
        frames = frame_features(shards, config.network, folder.features, config.ray, config.gpus_per_task)
        hierarchy = cluster(frames.features, config.clustering, config.seed)
        clusters, rows = hierarchy.of_frames(), frame_rows(shards, frames.keys)
        gone, removal = _near_duplicates(frames.features, hierarchy, rows, config)
        say(removal)
        weights = balanced_weights(hierarchy, config.balance, ~gone)
        write_curation(folder.table, frames.keys, clusters, weights)
        write_page(folder.page, frames, rows, clusters, weights, removal, config.balance.most_uses)
    counts = " in ".join(f"{len(centroids):,}" for centroids in hierarchy.centroids)
    seen = int(np.count_nonzero(weights < 1))
    say(f"{len(weights):,} frames in {counts} clusters; {seen:,} are seen less often than before: {folder.table}")
    say(f"train with data.sampling_weights={folder.table}; the clusters are shown in {folder.page}.")
    return folder


def _near_duplicates(
    features: Features, hierarchy: Hierarchy, rows: pa.Table, config: CurateConfig
) -> tuple[NDArray[np.bool_], str]:
    """Which frames go [N], and a sentence about it."""
    gone, clusters, near = np.zeros(len(features), bool), hierarchy.parents[0], config.near_duplicates
    if not near.remove:
        return gone, "Near-duplicates were not looked for."
    videos, seconds = videos_and_seconds(rows)
    measured = choose_threshold(*best_matches(features, clusters, videos, seconds, near.seconds), near)
    if measured.threshold is None:
        return gone, (
            f"No near-duplicates were removed. No similarity of {near.lowest_similarity:g} or more tells "
            f"repeats of one moment from other videos with a precision of {near.precision:g}."
        )
    gone = duplicates(features, clusters, measured.threshold)
    # A rare scene is better seen in frames that hardly differ than in one of them alone.
    gone &= ~too_few_left(hierarchy, config.balance, ~gone)
    return gone, (
        f"{int(gone.sum()):,} near-duplicates have the weight 0: frames whose similarity to another one is "
        f"{measured.threshold:.4f} or more. There the precision is {measured.precision:.4f}: {measured.right:,} frames "
        f"have such a match of the same moment, {measured.wrong:,} one of another video."
    )
