"""Which backend searches faster for such sizes on such a machine: measured once, remembered in the user's cache folder.

A choice changes no neighbour and no order (`ties.py`), only the time. So a file that is damaged, lost or can't be
written does no harm: the measurement is made again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import faiss
import torch

from eval_knn.search.block_search import Floats
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_object, user_cache, write_json
from panendofm.runtime.machine import processor_name

TORCH: Literal["torch"] = "torch"
FAISS: Literal["faiss"] = "faiss"

# What is measured: so many queries (a block of them) against so many gallery rows, at most.
_QUERIES, _ROWS = 1024, 1 << 16
# Below so many pairs a search is over before a measurement would be.
_FEWEST_PAIRS = 4_000_000
_ROUNDS = 2
_MEASUREMENT = "measurement 3"  # choices by an earlier one don't count

Search = Callable[[Floats, Floats], Any]
# Of this process; the file serves those that follow.
_remembered: dict[str, str] = {}


def faster_backend(searches: Mapping[str, Search], queries: Floats, gallery: Floats, k: int) -> str:
    """The name of the faster of two searches for the k nearest of all queries in the gallery."""
    if len(queries) * len(gallery) < _FEWEST_PAIRS:
        return TORCH
    key = _key(len(queries), len(gallery), gallery.shape[1], k)
    if key not in _remembered:
        path = choices_file()
        known = _read(path)
        if known.get(key) not in searches:
            seconds = _measure(searches, queries[:_QUERIES], gallery[:_ROWS])
            known[key] = min(seconds, key=seconds.__getitem__)
            shown = ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in seconds.items())
            say(f"search.backend=auto: {known[key]} from now on for such sizes on this machine ({shown}).")
            with contextlib.suppress(UserError):  # a read-only home: this process remembers it, the next one measures
                write_json(path, known)
        _remembered[key] = known[key]
    return _remembered[key]


def choices_file() -> Path:
    return user_cache("eval_knn") / "search_backends.json"


def _key(queries: int, gallery: int, width: int, k: int) -> str:
    """Kind of machine and class of size: by powers of two, as far as the measurement can tell sizes apart."""
    classes = (min(queries, _QUERIES), min(gallery, _ROWS), width, k)
    sizes = "x".join(str(1 << (size - 1).bit_length()) for size in classes)
    threads = f"{torch.get_num_threads()}+{faiss.omp_get_max_threads()} threads"
    return (
        f"{_MEASUREMENT}, {processor_name()}, {threads}, torch {torch.__version__}, faiss {faiss.__version__}, {sizes}"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json_object(path) if path.is_file() else {}
    except UserError:
        return {}


def _measure(searches: Mapping[str, Search], queries: Floats, gallery: Floats) -> dict[str, float]:
    """Best seconds of each search, which take turns.

    Each first searches the same once untimed: new threads and untouched memory would cost one more than the other.
    """
    best = dict.fromkeys(searches, float("inf"))
    for search in searches.values():
        search(queries, gallery)
    for _ in range(_ROUNDS):
        for name, search in searches.items():
            began = time.perf_counter()
            search(queries, gallery)
            best[name] = min(best[name], time.perf_counter() - began)
    return best
