"""The nearest gallery rows of each query by inner product: exact, in bounded memory, in one order everywhere.

On a CPU torch or FAISS searches, whichever a short measurement has found faster (`search_backend.py`); on a GPU FAISS.
Neighbours come in one order whoever has searched (`ties.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from eval_knn.config import AUTO, SearchConfig
from eval_knn.search.backend import FAISS, TORCH, faster_backend
from eval_knn.search.block_search import Exclusions, Floats, Integers, search_by_faiss, search_by_torch
from eval_knn.search.ties import MARGIN, order_ties
from panendofm.runtime.console import say

# FAISS's search on a GPU finds no more than this.
_GPU_MOST_NEIGHBOURS = 2048


@dataclass(frozen=True)
class Neighbours:
    """Gallery `rows` [Q, k], nearest first, and their `similarities` [Q, k]; row -1 and -inf where there is none."""

    rows: Integers
    similarities: Floats
    recall: float | None = None


def unit_rows(features: NDArray[np.floating], out: Floats | None = None) -> Floats:
    """Rows scaled to length 1, each on its own in double precision: equal rows stay equal. A zero row stays zero.

    `out` may be the features themselves, which saves the memory of a copy.
    """
    result = np.empty(features.shape, np.float32) if out is None else out
    for start in range(0, len(features), 8192):
        block = features[start : start + 8192].astype(np.float64)
        length = np.sqrt((block * block).sum(axis=1, keepdims=True))
        result[start : start + len(block)] = block / np.maximum(length, 1e-12)
    return result


def nearest(
    queries: Floats,
    gallery: Floats,
    k: int,
    config: SearchConfig | None = None,
    excluded: Exclusions | None = None,
) -> Neighbours:
    """The k nearest gallery rows (fewer when the gallery is smaller) of each query [Q, D] in gallery [G, D].

    They come by similarity, equal ones in the order of their gallery rows.
    """
    config = config or SearchConfig()
    k = min(k, len(gallery))
    if k == 0 or len(queries) == 0:
        return Neighbours(np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32))
    if len(gallery) > config.approximate_above and excluded is None:
        return _approximate(queries, gallery, k, config)
    wanted = min(k + MARGIN, len(gallery))
    if _gpus() and excluded is None and wanted <= _GPU_MOST_NEIGHBOURS and config.backend != TORCH:
        similarities, rows = _search_on_gpu(queries, gallery, wanted)
    elif excluded is None and _backend(queries, gallery, wanted, config) == FAISS:
        similarities, rows = search_by_faiss(queries, gallery, wanted)
    else:
        similarities, rows = _search_in_blocks(queries, gallery, wanted, config, excluded)
    order_ties(queries, gallery, similarities, rows, k, excluded)
    return Neighbours(rows[:, :k].copy(), similarities[:, :k].copy())


def _backend(queries: Floats, gallery: Floats, k: int, config: SearchConfig) -> str:
    if config.backend != AUTO:
        return config.backend
    searches = {
        TORCH: lambda some, rows: _search_in_blocks(some, rows, k, config, None),
        FAISS: lambda some, rows: search_by_faiss(some, rows, k),
    }
    return faster_backend(searches, queries, gallery, k)


def _search_in_blocks(
    queries: Floats, gallery: Floats, k: int, config: SearchConfig, excluded: Exclusions | None
) -> tuple[Floats, Integers]:
    return search_by_torch(queries, gallery, k, config.query_block, config.gallery_block, excluded)


def _approximate(queries: Floats, gallery: Floats, k: int, config: SearchConfig) -> Neighbours:
    width = gallery.shape[1]
    if config.approximate_index == "ivf":
        lists = max(1, int(4 * len(gallery) ** 0.5))
        # FAISS wants about 40 rows to train each list.
        lists = min(lists, max(1, len(gallery) // 40))
        index = faiss.index_factory(width, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
        faiss.ParameterSpace().set_index_parameter(index, "nprobe", min(lists, 64))
    else:
        index = faiss.index_factory(width, "HNSW32,Flat", faiss.METRIC_INNER_PRODUCT)
        faiss.ParameterSpace().set_index_parameter(index, "efConstruction", 200)
        faiss.ParameterSpace().set_index_parameter(index, "efSearch", max(256, 2 * k))
    index.train(gallery)
    index.add(gallery)
    similarities, rows = index.search(queries, k)
    similarities[rows < 0] = -np.inf
    sample = np.linspace(0, len(queries) - 1, min(config.recall_queries, len(queries))).astype(np.int64)
    _, truth = _search_in_blocks(np.ascontiguousarray(queries[sample]), gallery, k, config, None)
    found = [len(np.intersect1d(a, b)) for a, b in zip(rows[sample], truth, strict=True)]
    recall = float(np.mean(found)) / k
    say(
        f"approximate search ({config.approximate_index}, {len(gallery)} rows): "
        f"recall {recall:.4f} of the true {k} nearest, measured on {len(sample)} queries"
    )
    return Neighbours(rows, similarities, recall)


def _gpus() -> int:
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


def _search_on_gpu(queries: Floats, gallery: Floats, k: int) -> tuple[Floats, Integers]:
    resources = faiss.StandardGpuResources()
    similarities, rows = faiss.knn_gpu(resources, queries, gallery, k, metric=faiss.METRIC_INNER_PRODUCT)
    return similarities, rows
