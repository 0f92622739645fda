"""A few small images per drop reason, for the report."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panendofm.imaging.images import thumbnail

EXAMPLE_PX = 160

EXAMPLE_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("corpus", pa.string()),
        ("source", pa.string()),
        ("order", pa.string()),
        ("jpeg", pa.binary()),
        ("beside", pa.binary()),  # for a leak: the evaluation image
    ]
)


class ExampleRow(TypedDict):
    """A small image, and why it was left out."""

    reason: str
    corpus: str
    source: str
    order: str
    jpeg: bytes
    beside: bytes | None


class Examples:
    """Keeps the first few images of each reason."""

    def __init__(self, per_reason: int) -> None:
        self._per_reason = per_reason
        self._counts: Counter[str] = Counter()
        self.rows: list[ExampleRow] = []

    def offer(
        self,
        reason: str,
        corpus: str,
        source: str,
        order: str,
        image: NDArray[np.uint8],
        beside: NDArray[np.uint8] | None = None,
    ) -> None:
        """Keep this image unless there are enough for its reason. `order` decides later which are shown."""
        if self._counts[reason] >= self._per_reason:
            return
        self._counts[reason] += 1
        other = None if beside is None else thumbnail(beside, EXAMPLE_PX)
        self.rows.append(
            {
                "reason": reason,
                "corpus": corpus,
                "source": source,
                "order": order,
                "jpeg": thumbnail(image, EXAMPLE_PX),
                "beside": other,
            }
        )


def choose(table: pa.Table, per_reason: int) -> pa.Table:
    """Of all examples the same few per reason, whatever units they came from."""
    rows = sorted(table.to_pylist(), key=lambda row: (row["reason"], row["order"]))
    taken: Counter[str] = Counter()
    chosen = []
    for row in rows:
        taken[row["reason"]] += 1
        if taken[row["reason"]] <= per_reason:
            chosen.append(row)
    return pa.Table.from_pylist(chosen, EXAMPLE_SCHEMA)
