"""The nearest gallery rows of each query by inner product, in one order on every machine.

FAISS searches, on a GPU where its build has one. `ties.py` then settles the order of almost equal rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from eval_knn.config import SearchConfig
from eval_knn.search.groups import Groups
from eval_knn.search.ties import MARGIN, order_ties
from panendofm.runtime.console import say

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# FAISS's search on a GPU finds no more than this.
_GPU_MOST_NEIGHBORS = 2048
# Candidates (query, row) that are held at once: 12 bytes each.
_MOST_CANDIDATES = 32_000_000


@dataclass(frozen=True)
class Neighbors:
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
    queries: Floats, gallery: Floats, k: int, config: SearchConfig | None = None, groups: Groups | None = None
) -> Neighbors:
    """The k nearest gallery rows (fewer when the gallery is smaller) of each query [Q, D] in gallery [G, D].

    They come by similarity, equal ones in the order of their gallery rows.
    """
    config = config or SearchConfig()
    k = min(k, len(gallery))
    if k == 0 or len(queries) == 0:
        return Neighbors(np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32))
    if len(gallery) > config.approximate_above and groups is None:
        return _approximate(queries, gallery, k, config)
    excluded = 0 if groups is None else groups.most_excluded()
    candidates = min(k + MARGIN + excluded, len(gallery))
    block = max(1, _MOST_CANDIDATES // candidates)
    parts = []
    for start in range(0, len(queries), block):
        some = slice(start, start + block)
        similarities, rows = _search(queries[some], gallery, candidates)
        part = None if groups is None else groups.of(some)
        if part is not None:
            excluded_pairs = part.queries[:, None] == part.gallery[rows]  # [block, candidates]
            similarities, rows = _without_excluded(similarities, rows, excluded_pairs, min(k + MARGIN, len(gallery)))
        order_ties(queries[some], gallery, similarities, rows, k, part)
        parts.append((rows[:, :k], similarities[:, :k]))
    return Neighbors(np.concatenate([rows for rows, _ in parts]), np.concatenate([values for _, values in parts]))


def _search(queries: Floats, gallery: Floats, k: int) -> tuple[Floats, Integers]:
    """Similarities [Q, k] in falling order and their rows [Q, k]."""
    gpus = int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0
    if gpus and k <= _GPU_MOST_NEIGHBORS:
        resources = faiss.StandardGpuResources()
        similarities, rows = faiss.knn_gpu(resources, queries, gallery, k, metric=faiss.METRIC_INNER_PRODUCT)
    else:
        similarities, rows = faiss.knn(queries, gallery, k, metric=faiss.METRIC_INNER_PRODUCT)
    return similarities, rows


def _without_excluded(
    similarities: Floats, rows: Integers, excluded: NDArray[np.bool_], count: int
) -> tuple[Floats, Integers]:
    """The first `count` candidates that are not excluded, in their order."""
    order = np.argsort(excluded, axis=1, kind="stable")[:, :count]
    gone = np.take_along_axis(excluded, order, axis=1)
    kept = np.take_along_axis(similarities, order, axis=1)
    found = np.take_along_axis(rows, order, axis=1)
    kept[gone] = -np.inf
    found[gone] = -1
    return kept, found


def _approximate(queries: Floats, gallery: Floats, k: int, config: SearchConfig) -> Neighbors:
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
    _, truth = _search(np.ascontiguousarray(queries[sample]), gallery, k)
    found = [len(np.intersect1d(a, b)) for a, b in zip(rows[sample], truth, strict=True)]
    recall = float(np.mean(found)) / k
    say(
        f"approximate search ({config.approximate_index}, {len(gallery)} rows): "
        f"recall {recall:.4f} of the true {k} nearest, measured on {len(sample)} queries"
    )
    return Neighbors(rows, similarities, recall)
