"""Seeds as pure functions of what they belong to.

Nothing that trains reads a random state that depends on the history of a process. A random draw is named by its parts,
for example (seed, "mask", step, rank), so that a resumed run draws what the uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def _digest(parts: tuple[int | str, ...]) -> bytes:
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def derived_seed(*parts: int | str) -> int:
    """A 63-bit seed that depends on every part and on nothing else."""
    return int.from_bytes(_digest(parts)[:8], "little") >> 1


def numpy_generator(*parts: int | str) -> np.random.Generator:
    """A generator of its own for these parts (Philox takes the hash as its key, without warm-up)."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(parts), "little")))


def torch_generator(*parts: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(derived_seed(*parts))
