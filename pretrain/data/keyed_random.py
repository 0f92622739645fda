"""Random numbers that a stream's name alone decides, in our own arithmetic: NumPy's generators may change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Enough for every place of a video of a million frames to be as likely as any other.
_SWAP_ROUNDS = 24


def mix(words: Words) -> Words:
    """The finaliser of splitmix64: a bijection that scatters neighbouring numbers."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))


def random_words(stream: tuple[int, ...], count: int) -> Words:
    """The first random 64-bit words of a stream."""
    with np.errstate(over="ignore"):
        state = np.zeros(1, np.uint64)
        for word in stream:
            state = mix(state + _GOLDEN + np.array([word % 2**64], np.uint64))
        return mix(state + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64))


def shuffled(stream: tuple[int, ...], count: int) -> Ints:
    """The numbers 0 … count − 1 in a random order."""
    return np.argsort(random_words(stream, count), kind="stable")


def shuffled_stretch(stream: tuple[int, ...], count: int, begin: int, end: int) -> Ints:
    """The numbers that `shuffled` puts at the places `begin` to `end`, in rising order; in a third of its time."""
    if (begin, end) == (0, count):
        return np.arange(count)
    words = random_words(stream, count)
    edges = [edge for edge in (begin, end) if edge < count]
    parted = np.partition(words, edges)
    inside = (words >= parted[begin]) & (words < parted[end] if end < count else True)
    if np.count_nonzero(inside) != end - begin:  # equal words at an edge: their order decides
        return np.sort(shuffled(stream, count)[begin:end])
    return np.flatnonzero(inside)


def words_of(stream: tuple[int, ...], numbers: Ints) -> Words:
    """A random word for each number, whatever the others are."""
    return mix(random_words(stream, 1)[0] ^ mix(numbers.astype(np.uint64)))


def permuted(places: Ints, sizes: Ints, keys: Words) -> Ints:
    """Where a random permutation of 0 … size − 1 puts each place; place, size and key of the permutation are [n].

    The swap-or-not shuffle (Hoang, Morris and Rogaway, 2012): single places of a permutation without the others.
    """
    x, size = places.astype(np.uint64), sizes.astype(np.uint64)
    with np.errstate(over="ignore"):
        for number in range(_SWAP_ROUNDS):
            key = mix(keys + _GOLDEN * np.uint64(number + 1))
            partner = (key % size + size - x) % size
            swaps = mix(np.maximum(x, partner) ^ key) & np.uint64(1)
            x = np.where(swaps == 1, partner, x)
    return x.astype(np.int64)
