"""`curate`: features of all frames, their clusters, and curation.parquet with a weight for each.

Run again it goes on where it was interrupted, and ends with the same bytes whatever the number of workers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from data_pipeline.curate.balance import balanced_weights
from data_pipeline.curate.clustering import cluster
from data_pipeline.curate.config import CurateConfig
from data_pipeline.curate.features import frame_features
from data_pipeline.curate.page import write_page
from records.curation import CurationFolder, write_curation
from runtime.config import save_config
from runtime.console import say
from runtime.files import make_directory, remove_leftovers
from runtime.locks import directory_lock


def curate(shards: Path, config: CurateConfig) -> CurationFolder:
    """Write the curation of a shard set; see the module's text."""
    folder = config.folder(shards)
    with directory_lock(make_directory(folder.path)):
        remove_leftovers(folder.path)
        save_config(config, folder.config)
        frames = frame_features(shards, config.network, folder.features, config.ray)
        hierarchy = cluster(frames.features, config.clustering, config.seed)
        weights = balanced_weights(hierarchy, config.balance)
        clusters = hierarchy.of_frames()
        write_curation(folder.table, frames.keys, clusters, weights)
        write_page(folder.page, shards, frames, clusters, weights)
    counts = " in ".join(f"{len(centroids):,}" for centroids in hierarchy.centroids)
    seen = int(np.count_nonzero(weights < 1))
    say(f"{len(weights):,} frames in {counts} clusters; {seen:,} are seen less often than before: {folder.table}")
    say(f"train with data.weights={folder.table}; the clusters are shown in {folder.page}.")
    return folder
