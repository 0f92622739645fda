"""The nearest gallery rows of each query by inner product: exact, in bounded memory, in one order everywhere.

Similarities are computed block by block (queries × gallery) by torch. The best k of the first block are sorted out by
torch; the following blocks go through FAISS's result heaps, which keep the running best k of each query. FAISS's own
flat index does the same with the matrix product of its wheel, which is several times slower on a CPU than torch's
(benchmarks/knn.py); on a GPU its search is used whole.

Order: by similarity, then by gallery row. Similarities that differ by rounding noise count as equal only if they are
equal in double precision, so block sizes, thread counts and the number of ranks don't change which rows are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from runtime.config import option
from runtime.console import say

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# Single-precision inner products of unit vectors are good to about 3e-7; closer ones are looked at again.
_DOUBTFUL_GAP = 1e-6
# Double-precision values are rounded to this many places before they are compared: equal rows compare equal.
_DOUBLE_PLACES = 9
# Candidates beyond k, so that a tie across the k-th place can be seen whole.
_MARGIN = 24
# Similarities in double precision that are held at once (128 MB, and as much again while they are sorted).
_DOUBLE_BLOCK_VALUES = 16_000_000
# A gallery of so few blocks is sorted out whole by torch: that is faster than heaps for what is left of it.
_SORTED_WHOLE_BLOCKS = 4
# FAISS's search on a GPU finds no more than this.
_GPU_MOST_NEIGHBOURS = 2048


@dataclass
class SearchConfig:
    """How neighbours are searched."""

    query_block: int = option(
        "Queries per block; with gallery_block it bounds the memory (4 bytes a pair).", 1024, low=1
    )
    gallery_block: int = option("Gallery rows per block.", 2048, low=1)
    approximate_above: int = option(
        "Gallery rows past which an approximate index is used, its recall printed.", 5_000_000, low=1
    )
    approximate_index: Literal["ivf", "hnsw"] = option("Which approximate index.", "ivf")
    recall_queries: int = option("Queries on which the recall of an approximate index is measured.", 200, low=1)


@dataclass(frozen=True)
class Neighbours:
    """Gallery `rows` [Q, k], nearest first, and their `similarities` [Q, k]; row -1 and -inf where there is none."""

    rows: Integers
    similarities: Floats
    recall: float | None = None


@dataclass(frozen=True)
class Exclusions:
    """Pairs that must not meet, such as two frames of one procedure: query `queries[i]` never gets `gallery[i]`."""

    queries: Integers
    gallery: Integers


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
    boundaries: Sequence[int] = (),
    excluded: Exclusions | None = None,
) -> Neighbours:
    """The k nearest gallery rows (fewer when the gallery is smaller) of each query [Q, D] in gallery [G, D].

    `boundaries` are the numbers of neighbours that will be used (k is always one): at these places equal similarities
    are put in the order of their gallery rows.
    """
    config = config or SearchConfig()
    k = min(k, len(gallery))
    if k == 0 or len(queries) == 0:
        return Neighbours(np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32))
    if len(gallery) > config.approximate_above and excluded is None:
        return _approximate(queries, gallery, k, config)
    wanted = min(k + _MARGIN, len(gallery))
    if _gpus() and excluded is None and wanted <= _GPU_MOST_NEIGHBOURS:
        similarities, rows = _search_on_gpu(queries, gallery, wanted)
    else:
        similarities, rows = _search_in_blocks(queries, gallery, wanted, config, excluded)
    _order_ties(queries, gallery, similarities, rows, sorted({*boundaries, k}), excluded)
    return Neighbours(rows[:, :k].copy(), similarities[:, :k].copy())


def _search_in_blocks(
    queries: Floats, gallery: Floats, k: int, config: SearchConfig, excluded: Exclusions | None
) -> tuple[Floats, Integers]:
    similarities = np.empty((len(queries), k), np.float32)
    rows = np.empty((len(queries), k), np.int64)
    query_rows, gallery_rows = torch.from_numpy(queries), torch.from_numpy(gallery)
    query_block, gallery_block = min(config.query_block, len(queries)), min(config.gallery_block, len(gallery))
    if len(gallery) <= _SORTED_WHOLE_BLOCKS * gallery_block:
        gallery_block = len(gallery)
    buffer = torch.empty(query_block * gallery_block)
    for q in range(0, len(queries), query_block):
        some = query_rows[q : q + query_block]
        best, found = similarities[q : q + len(some)], rows[q : q + len(some)]
        heaps = faiss.float_minheap_array_t()
        heaps.nh, heaps.k = len(some), k
        heaps.val, heaps.ids = faiss.swig_ptr(best), faiss.swig_ptr(found)
        for g in range(0, len(gallery), gallery_block):
            part = gallery_rows[g : g + gallery_block]
            block = buffer[: len(some) * len(part)].view(len(some), len(part))  # [query_block, gallery_block]
            torch.mm(some, part.T, out=block)
            if excluded is not None:
                _blank(block, q, g, excluded)
            if g == 0:
                _first_candidates(block, best, found)
                continue
            if g == gallery_block:  # values in rising order are a heap
                best[:], found[:] = best[:, ::-1].copy(), found[:, ::-1].copy()
            heaps.addn(len(part), faiss.cast_integer_to_float_ptr(block.data_ptr()), g)  # type: ignore[call-arg]
        if len(gallery) > gallery_block:
            heaps.reorder()
    similarities[rows < 0] = -np.inf
    return similarities, rows


def _first_candidates(block: torch.Tensor, best: Floats, found: Integers) -> None:
    """The best k of the first block in falling order [Q, k]: nearly all of it would enter heaps, and sorting is faster.

    Blanked similarities and the places that are left over count as missing.
    """
    best[:], found[:] = np.finfo(np.float32).min, -1
    values, columns = block.topk(min(best.shape[1], block.shape[1]), dim=1)
    known = torch.isfinite(values)
    best[:, : values.shape[1]] = torch.where(known, values, torch.finfo(torch.float32).min).numpy()
    found[:, : values.shape[1]] = torch.where(known, columns, -1).numpy()


def _blank(block: torch.Tensor, first_query: int, first_row: int, excluded: Exclusions) -> None:
    inside = (
        (excluded.queries >= first_query)
        & (excluded.queries < first_query + block.shape[0])
        & (excluded.gallery >= first_row)
        & (excluded.gallery < first_row + block.shape[1])
    )
    block[excluded.queries[inside] - first_query, excluded.gallery[inside] - first_row] = -torch.inf


def _order_ties(
    queries: Floats,
    gallery: Floats,
    similarities: Floats,
    rows: Integers,
    boundaries: Sequence[int],
    excluded: Exclusions | None,
) -> None:
    """Decide, in place, which of almost equal candidates stand before each boundary and which after it."""
    candidates = rows.shape[1]
    with np.errstate(invalid="ignore"):  # -inf minus -inf: two missing neighbours are no tie
        doubtful = similarities[:, :-1] - similarities[:, 1:] < _DOUBTFUL_GAP  # [Q, candidates - 1]
    open_ended: set[int] = set()
    for boundary in (b for b in boundaries if b < candidates):
        for query in np.flatnonzero(doubtful[:, boundary - 1]).tolist():
            clear = np.flatnonzero(~doubtful[query])
            before, after = clear[clear < boundary - 1], clear[clear >= boundary]
            if len(after) == 0 and candidates < len(gallery):
                open_ended.add(query)
                continue
            run = slice(before[-1] + 1 if len(before) else 0, after[0] + 1 if len(after) else candidates)
            exact = (gallery[rows[query, run]].astype(np.float64) * queries[query].astype(np.float64)).sum(axis=1)
            order = np.lexsort((rows[query, run], -exact.round(_DOUBLE_PLACES)))
            similarities[query, run], rows[query, run] = similarities[query, run][order], rows[query, run][order]
    _rank_whole_gallery(np.array(sorted(open_ended), np.int64), queries, gallery, similarities, rows, excluded)


def _rank_whole_gallery(
    which: Integers,
    queries: Floats,
    gallery: Floats,
    similarities: Floats,
    rows: Integers,
    excluded: Exclusions | None,
) -> None:
    """A tie that may go on past the candidates (features that have collapsed): rank all rows in double precision."""
    some = max(1, _DOUBLE_BLOCK_VALUES // len(gallery))
    for start in range(0, len(which), some):
        batch = which[start : start + some]
        wide = queries[batch].astype(np.float64)
        exact = np.empty((len(batch), len(gallery)))
        for g in range(0, len(gallery), 8192):
            exact[:, g : g + 8192] = wide @ gallery[g : g + 8192].astype(np.float64).T
        if excluded is not None:
            inside = np.isin(excluded.queries, batch)
            exact[np.searchsorted(batch, excluded.queries[inside]), excluded.gallery[inside]] = -np.inf
        order = np.argsort(-exact.round(_DOUBLE_PLACES), axis=1, kind="stable")[:, : rows.shape[1]]
        best = np.take_along_axis(exact, order, axis=1)
        similarities[batch] = best
        rows[batch] = np.where(np.isneginf(best), -1, order)


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
