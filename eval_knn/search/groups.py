"""Pairs that must not meet: a query never gets a gallery row of its own group, such as one of the same procedure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    queries: Integers  # [Q]
    gallery: Integers  # [G]

    def of(self, some: slice) -> Groups:
        """The same for some of the queries."""
        return Groups(self.queries[some], self.gallery)

    def most_excluded(self) -> int:
        """How many gallery rows the largest group holds that a query is of."""
        sizes = np.bincount(self.gallery, minlength=int(self.queries.max(initial=0)) + 1)
        return int(sizes[self.queries].max(initial=0))
