"""Rectangles that cover marked cells of a grid with little beside them."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.uint8]  # [rows, columns], not 0 where a cell is marked
Box = tuple[int, int, int, int]  # left, top, right, bottom (the last two exclusive)

# A rectangle is cut in two where that leaves out this share of it. Rows or columns that both parts have at the cut.
_WORTH_A_CUT, _SHARED = 0.2, 2


def covering_boxes(marked: Cells) -> list[Box]:
    """Boxes of cells. Those that belong together, even by a corner, share a box, unless it would be mostly empty."""
    count, labels = cv2.connectedComponents((marked > 0).astype(np.uint8), connectivity=8)
    return [box for label in range(1, count) for box in _boxes_of(np.asarray(labels == label), (0, 0))]


def _boxes_of(group: NDArray[np.bool_], corner: tuple[int, int]) -> Iterator[Box]:
    """Boxes of one group [rows, columns] in a part of the grid that begins at `corner` (column, row)."""
    rows, columns = np.flatnonzero(group.any(axis=1)), np.flatnonzero(group.any(axis=0))
    tight = group[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    left, top = corner[0] + int(columns[0]), corner[1] + int(rows[0])
    height, width = tight.shape
    (across, column), (along, row) = _best_cut(tight), _best_cut(tight.T)
    if max(across, along) < _WORTH_A_CUT * tight.size:
        yield left, top, left + width, top + height
    elif across >= along:
        yield from _boxes_of(tight[:, : column + _SHARED], (left, top))
        yield from _boxes_of(tight[:, column:], (left + column, top))
    else:
        yield from _boxes_of(tight[: row + _SHARED], (left, top))
        yield from _boxes_of(tight[row:], (left, top + row))


def _best_cut(tight: NDArray[np.bool_]) -> tuple[int, int]:
    """How many cells a cut into left and right leaves out, and the first of the columns that both parts have."""
    width = tight.shape[1]
    starts = np.arange(1, width - _SHARED)
    if len(starts) == 0:
        return 0, 0
    left, right = _heights(tight), _heights(tight[:, ::-1])[::-1]  # of what ends, or begins, at each column
    taken = left[starts + _SHARED - 1] * (starts + _SHARED) + right[starts] * (width - starts)
    best = int(np.argmin(taken))
    return tight.size - int(taken[best]), int(starts[best])


def _heights(tight: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[columns]: how many rows lie between the first and the last marked one of a column or those before it."""
    rows = len(tight)
    some = tight.any(axis=0)
    first = np.where(some, tight.argmax(axis=0), rows)
    last = np.where(some, rows - tight[::-1].argmax(axis=0), 0)
    return np.asarray(np.maximum.accumulate(last) - np.minimum.accumulate(first), np.int64)
