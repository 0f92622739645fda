"""Random numbers that a stream's name alone decides, in our own arithmetic: NumPy's generators may change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Enough for every place of a video of a million frames to be as likely as any other.
_SWAP_ROUNDS = 24
# Words that are made at a time: they stay in the processor's cache.
_CHUNK = 1 << 15
# The leading bits by which words are counted first when one is looked for by its rank.
_HEAD_BITS = 16


def mix(words: Words) -> Words:
    """The finaliser of splitmix64: a bijection that scatters neighboring numbers."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))


def random_words(stream: tuple[int, ...], count: int) -> Words:
    """The first random 64-bit words of a stream; all are different."""
    words = np.empty(count, np.uint64)
    for begin, chunk in _chunks(stream, count):
        words[begin : begin + len(chunk)] = chunk
    return words


def _chunks(stream: tuple[int, ...], count: int) -> Iterator[tuple[int, Words]]:
    """`random_words`, some at a time, with the number of the first; each chunk takes the place of the one before."""
    with np.errstate(over="ignore"):
        state = np.zeros(1, np.uint64)
        for word in stream:
            state = mix(state + _GOLDEN + np.array([word % 2**64], np.uint64))
        first = state + _GOLDEN * np.arange(1, min(count, _CHUNK) + 1, dtype=np.uint64)
    words, shifted = np.empty_like(first), np.empty_like(first)
    for begin in range(0, count, _CHUNK):
        np.add(first, np.array([begin * int(_GOLDEN) % 2**64], np.uint64), out=words)
        _mix_in_place(words, shifted)
        yield begin, words[: count - begin]


def _mix_in_place(words: Words, shifted: Words) -> None:
    """`mix`, in memory that is there."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= np.right_shift(words, np.uint64(shift), out=shifted)
        words *= np.uint64(factor)
    words ^= np.right_shift(words, np.uint64(31), out=shifted)


def shuffled(stream: tuple[int, ...], count: int) -> Ints:
    """The numbers 0 … count − 1 in a random order."""
    return np.argsort(random_words(stream, count), kind="stable")


def fill_stretch(stream: tuple[int, ...], count: int, begin: int, end: int, into: NDArray[np.integer]) -> None:
    """The numbers that `shuffled` puts at the places `begin` to `end`, in rising order; in a tenth of its time.

    They are those whose words lie between two: nothing is sorted, and no more than a chunk of words is in memory.
    """
    low, high = _words_at(stream, count, begin, end)
    filled = 0
    for first, words in _chunks(stream, count):
        numbers = np.flatnonzero((words >= low) & (words <= high))
        into[filled : filled + len(numbers)] = numbers + first
        filled += len(numbers)


def _words_at(stream: tuple[int, ...], count: int, begin: int, end: int) -> tuple[np.uint64, np.uint64]:
    """The smallest and the largest word of a stretch: those of the ranks `begin` and `end` − 1."""
    heads = np.zeros(1 << _HEAD_BITS, np.int64)
    for _, words in _chunks(stream, count):
        heads += np.bincount(_heads(words), minlength=len(heads))
    ends = np.cumsum(heads)
    wanted = np.array([begin, end - 1])
    head = np.searchsorted(ends, wanted, side="right")
    alike = [np.concatenate([words[_heads(words) == h] for _, words in _chunks(stream, count)]) for h in head]
    low, high = (np.sort(some)[rank] for some, rank in zip(alike, wanted - (ends - heads)[head], strict=True))
    return low, high


def _heads(words: Words) -> NDArray[np.uint16]:
    """The leading bits of each word."""
    return (words >> np.uint64(64 - _HEAD_BITS)).astype(np.uint16)


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
