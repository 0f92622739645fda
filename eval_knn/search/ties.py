"""One order of neighbors everywhere: by similarity, then by gallery row.

Similarities that differ by rounding noise count as equal only if they are equal in double precision, so block sizes,
thread counts, the number of ranks and the device of the search change neither which rows are chosen nor their order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eval_knn.search.groups import Groups

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# Candidates beyond k, so that a tie across the k-th place can be seen whole.
MARGIN = 8
# Single-precision inner products of unit vectors are good to about 3e-7; closer ones are looked at again.
_DOUBTFUL_GAP = 1e-6
# Double-precision values are rounded to this many places before they are compared: equal rows compare equal.
_DOUBLE_PLACES = 9
# Values in double precision that are held at once (128 MB, and as much again while they are sorted).
_DOUBLE_BLOCK_VALUES = 16_000_000

# Values in double precision that stay in a processor's cache while they are multiplied.
_CACHED_VALUES = 1 << 16


def order_ties(
    queries: Floats, gallery: Floats, similarities: Floats, rows: Integers, k: int, groups: Groups | None
) -> None:
    """Put candidates [Q, k + margin] that are almost equal into their order, in place, as far as the first k go."""
    candidates = rows.shape[1]
    with np.errstate(invalid="ignore"):  # -inf minus -inf: two missing neighbors are no tie
        doubtful = similarities[:, :-1] - similarities[:, 1:] < _DOUBTFUL_GAP  # [Q, candidates - 1]
    query, left = np.nonzero(doubtful)  # sorted by query, then by place
    if not len(query):
        return
    follows = np.zeros(len(query), bool)  # goes on with the run of the pair before it
    follows[1:] = (query[1:] == query[:-1]) & (left[1:] == left[:-1] + 1)
    firsts = np.flatnonzero(~follows)
    lasts = np.append(firsts[1:], len(query)) - 1
    run_query, begin, end = query[firsts], left[firsts], left[lasts] + 2
    matters = begin < k
    # A tie that may go on past the candidates, as with features that have collapsed.
    open_ended = matters & (end == candidates) & (candidates < len(gallery))
    closed = matters & ~open_ended
    _sort_runs(queries, gallery, similarities, rows, run_query[closed], begin[closed], end[closed])
    _rank_whole_gallery(np.unique(run_query[open_ended]), queries, gallery, similarities, rows, groups)


def _sort_runs(
    queries: Floats,
    gallery: Floats,
    similarities: Floats,
    rows: Integers,
    run_query: Integers,
    begin: Integers,
    end: Integers,
) -> None:
    """Sort runs of candidates: places `begin` to `end` of a query."""
    sizes = end - begin
    run = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(run)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + begin[run]
    query = run_query[run]
    found = rows[query, place]
    exact = np.empty(len(found))
    some = max(1, _CACHED_VALUES // gallery.shape[1])
    for start in range(0, len(found), some):
        part = slice(start, start + some)
        exact[part] = _exact(queries[query[part]], gallery[found[part]])
    order = np.lexsort((found, -exact.round(_DOUBLE_PLACES), run))
    similarities[query, place], rows[query, place] = similarities[query, place][order], found[order]


def _exact(queries: Floats, rows: Floats) -> NDArray[np.float64]:
    """Inner products of rows with their queries in double precision, [n]."""
    product: NDArray[np.float64] = (queries.astype(np.float64) * rows.astype(np.float64)).sum(axis=1)
    return product


def _rank_whole_gallery(
    which: Integers,
    queries: Floats,
    gallery: Floats,
    similarities: Floats,
    rows: Integers,
    groups: Groups | None,
) -> None:
    """Rank all rows for some queries in double precision."""
    some = max(1, _DOUBLE_BLOCK_VALUES // len(gallery))
    for start in range(0, len(which), some):
        batch = which[start : start + some]
        wide = queries[batch].astype(np.float64)
        exact = np.empty((len(batch), len(gallery)))
        for g in range(0, len(gallery), 8192):
            exact[:, g : g + 8192] = wide @ gallery[g : g + 8192].astype(np.float64).T
        if groups is not None:
            exact[groups.queries[batch, None] == groups.gallery[None, :]] = -np.inf
        order = np.argsort(-exact.round(_DOUBLE_PLACES), axis=1, kind="stable")[:, : rows.shape[1]]
        best = np.take_along_axis(exact, order, axis=1)
        similarities[batch] = best
        rows[batch] = np.where(np.isneginf(best), -1, order)
