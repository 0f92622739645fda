"""The best k gallery rows of each query, searched exactly and in bounded memory on a CPU: by torch, or by FAISS.

torch: similarities are computed block by block (queries × gallery). The best k of the first block are sorted out by
NumPy; the following blocks go through FAISS's result heaps, which keep the running best k of each query.
FAISS: its flat search, whole. Which of the two is faster depends on the matrix products that the machine's processor
gets from either wheel (`search_backend.py`). The order of almost equal rows is settled afterwards (`ties.py`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# A gallery of so few blocks is sorted out whole: that is faster than heaps for what is left of it.
_SORTED_WHOLE_BLOCKS = 4
# Queries whose similarities a thread sorts out at a time.
_PARTITION_ROWS = 64


@dataclass(frozen=True)
class Exclusions:
    """Pairs that must not meet, such as two frames of one procedure: query `queries[i]` never gets `gallery[i]`."""

    queries: Integers
    gallery: Integers


def search_by_faiss(queries: Floats, gallery: Floats, k: int) -> tuple[Floats, Integers]:
    """Similarities [Q, k] in falling order and their rows [Q, k]."""
    similarities, rows = faiss.knn(queries, gallery, k, metric=faiss.METRIC_INNER_PRODUCT)
    return similarities, rows


def search_by_torch(
    queries: Floats, gallery: Floats, k: int, query_block: int, gallery_block: int, excluded: Exclusions | None = None
) -> tuple[Floats, Integers]:
    """Similarities [Q, k] in falling order and their rows [Q, k]; -inf and row -1 where there is none."""
    similarities = np.empty((len(queries), k), np.float32)
    rows = np.empty((len(queries), k), np.int64)
    query_rows, gallery_rows = torch.from_numpy(queries), torch.from_numpy(gallery)
    query_block, gallery_block = min(query_block, len(queries)), min(gallery_block, len(gallery))
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

    Blanked similarities and the places that are left over count as missing. NumPy's partition uses the processor's
    vectors and is two to three times as fast as torch's top-k; it lets other threads run meanwhile.
    """
    best[:], found[:] = np.finfo(np.float32).min, -1
    rows, count = block.numpy(), min(best.shape[1], block.shape[1])

    def sort_out(start: int) -> None:
        some = slice(start, start + _PARTITION_ROWS)
        columns = np.argpartition(rows[some], rows.shape[1] - count, axis=1)[:, -count:]
        values = np.take_along_axis(rows[some], columns, axis=1)
        falling = np.argsort(-values, axis=1)
        values, columns = np.take_along_axis(values, falling, axis=1), np.take_along_axis(columns, falling, axis=1)
        known = np.isfinite(values)
        best[some, :count] = np.where(known, values, np.finfo(np.float32).min)
        found[some, :count] = np.where(known, columns, -1)

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(sort_out, range(0, len(rows), _PARTITION_ROWS)))


def _blank(block: torch.Tensor, first_query: int, first_row: int, excluded: Exclusions) -> None:
    inside = (
        (excluded.queries >= first_query)
        & (excluded.queries < first_query + block.shape[0])
        & (excluded.gallery >= first_row)
        & (excluded.gallery < first_row + block.shape[1])
    )
    block[excluded.queries[inside] - first_query, excluded.gallery[inside] - first_row] = -torch.inf
