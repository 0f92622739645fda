"""Which images a network may have seen while it was pretrained: by dataset, and image by image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.corpora import datasets_seen
from panendofm.atlas.samples import Sample
from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError


def overlapping(samples: Sequence[Sample], corpora: list[str], listed: str) -> NDArray[np.bool_]:
    """True for samples of datasets that share images with one of the corpora, and for those in the list."""
    datasets = datasets_seen(corpora, "pretraining_corpora")
    digests, files = _listed(Path(listed)) if listed else (set(), set())
    return np.array(
        [
            bool(datasets & set(sample.datasets)) or sample.sha256 in digests or sample.path in files
            for sample in samples
        ],
        bool,
    )


def _listed(path: Path) -> tuple[set[str], set[str]]:
    """Checksums and resolved files of a CSV with a column sha256, file or both."""
    rows = read_csv(path, ())
    if not rows or not ({"sha256", "file"} & set(rows[0])):
        raise UserError(f"{path}: it needs a column 'sha256' or 'file' and at least one row.")
    files = {str((path.parent / row["file"]).resolve()) for row in rows if row.get("file")}
    return {row["sha256"] for row in rows if row.get("sha256")}, files
