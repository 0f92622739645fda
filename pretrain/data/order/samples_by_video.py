"""Samples sorted by corpus and video: the form in which the order takes a corpus, and in which an index stores it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pretrain.data.order.keyed_random import Ints


class SampleRuns(NamedTuple):
    """All samples, those of a video side by side; a sample's place in this order stands for it."""

    rows: NDArray[np.integer]  # [N], which sample stands at each place
    sizes: Ints  # [V], samples of each video; videos are sorted by corpus
    corpora: Ints  # [V], corpus of each video

    @property
    def starts(self) -> Ints:
        """[V + 1], the places at which videos begin, and the end."""
        return np.concatenate([[0], np.cumsum(self.sizes)])


def sort_samples(corpora: Ints, videos: Ints) -> SampleRuns:
    """Samples of a corpus (`corpora` [N], numbers from 0) and a video (`videos` [N]) each."""
    if not len(corpora):
        none = np.empty(0, np.int64)
        return SampleRuns(none, none, none)
    videos, corpus_of_video = _numbered_by_corpus(corpora, videos)
    order = sorted_by(videos)
    rows: NDArray[np.integer] = order.astype(np.int32) if len(order) < 2**31 else order
    return SampleRuns(rows, np.bincount(videos), corpus_of_video)


def _numbered_by_corpus(corpora: Ints, videos: Ints) -> tuple[Ints, Ints]:
    """Videos [N] under new numbers without gaps, sorted by corpus, and the corpus of each number [V]."""
    largest = int(videos.max())
    if largest < 2 * len(videos) + 1000:  # small enough for a table
        corpus_of = np.full(largest + 1, -1, np.int64)
        corpus_of[videos] = corpora
        if np.array_equal(corpus_of[videos], corpora):  # no video belongs to two corpora
            known = np.flatnonzero(corpus_of >= 0)
            known = known[np.argsort(corpus_of[known], kind="stable")]
            if len(known) == largest + 1 and np.all(np.diff(known) > 0):
                return videos, corpus_of
            number = np.empty(largest + 1, np.int64)
            number[known] = np.arange(len(known))
            return number[videos], corpus_of[known]
    pairs, numbers = np.unique(np.stack([corpora, videos]), axis=1, return_inverse=True)
    return numbers.ravel(), pairs[0]


def sorted_by(values: NDArray[np.integer]) -> Ints:
    """The order that sorts numbers from 0 on, stable. By digits of 16 bits, for which NumPy has a radix sort."""
    order: Ints | None = None
    for shift in range(0, max(int(values.max()).bit_length(), 1), 16):
        digits = ((values if order is None else values[order]) >> shift & 0xFFFF).astype(np.uint16)
        by_digit = np.argsort(digits, kind="stable")
        order = by_digit if order is None else order[by_digit]
    assert order is not None
    return order
