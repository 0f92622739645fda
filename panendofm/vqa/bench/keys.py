"""Draws that depend on what a question is made of, never on the order of files: keyed hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import numpy as np

T = TypeVar("T", bound=str)


def keyed(*parts: object) -> int:
    """A number of 64 bits for the parts."""
    return int.from_bytes(hashlib.sha256("\0".join(str(part) for part in parts).encode()).digest()[:8], "big")


def shuffled(items: Iterable[T], *key: object) -> list[T]:
    """The items in an order that the key decides; the order they came in doesn't matter."""
    return sorted(items, key=lambda item: (keyed(*key, item), item))


def generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(keyed(*key))
