"""Features of more frames than memory holds: files on disk, mapped and read a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

# Frames that are worked on together. FAISS takes 4,096 at a time, so that it does the same as with all at once.
CHUNK = 1 << 13


class Features:
    """Unit features [N, D] in parts [n, D] that lie one after another; parts may be mapped files."""

    def __init__(self, parts: Sequence[Floats]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._ends = np.cumsum([len(part) for part in self._parts], dtype=np.int64)
        self.width = self._parts[0].shape[1] if self._parts else 0

    def __len__(self) -> int:
        return int(self._ends[-1]) if self._parts else 0

    def take(self, rows: Ints) -> Floats:
        """Some rows, in memory."""
        taken = np.empty((len(rows), self.width), np.float32)
        of_part = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(of_part, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(of_part[order])) + 1) if len(rows) else []:
            number = int(of_part[some[0]])
            part = self._parts[number]
            taken[some] = part[rows[some] - (int(self._ends[number]) - len(part))]
        return taken

    def chunks(self) -> Iterator[tuple[int, Floats]]:
        """All rows, some at a time, with the number of the first; where parts end makes no difference."""
        for begin in range(0, len(self), CHUNK):
            yield begin, self.take(np.arange(begin, min(begin + CHUNK, len(self))))
