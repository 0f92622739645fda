"""Which samples belong together: near-identical images, frames of one video, images of one patient.

Groups are drawn whole by a bootstrap and never stand on both sides of a split.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from panendofm.imaging.image_hash import distance_blocks

Integers = NDArray[np.int64]


def connected_groups(count: int, first: Integers, second: Integers) -> Integers:
    """A group number for each of `count` samples: first[i] and second[i] are together, and so on along chains.

    Groups are numbered in the order of their first member.
    """
    graph = coo_array((np.ones(len(first), np.int8), (first, second)), shape=(count, count))
    labels = connected_components(graph, directed=False)[1]
    _, begins, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(begins), np.int64)
    number[np.argsort(begins)] = np.arange(len(begins))
    return number[inverse]


def linked_groups(links: Sequence[Iterable[Hashable]]) -> Integers:
    """A group number for every sample [N]; samples that share a link, directly or along a chain, share it."""
    first_with: dict[Hashable, int] = {}
    pairs = [(first_with.setdefault(link, i), i) for i, own in enumerate(links) for link in own]
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return connected_groups(len(links), table[:, 0], table[:, 1])


def near_duplicate_groups(hashes: NDArray[np.uint8], max_distance: int) -> Integers:
    """A group number for every row of [N, n]: rows at most `max_distance` bits apart share one, and so along chains."""
    groups = np.arange(len(hashes))
    for start, block in distance_blocks(hashes, hashes):
        rows, columns = np.nonzero(block <= max_distance)
        # What is known so far is one pair a sample, so memory stays bounded however many copies there are.
        known = np.unique(groups, return_index=True)[1][groups]
        groups = connected_groups(
            len(hashes),
            np.concatenate([np.arange(len(hashes)), rows + start]),
            np.concatenate([known, columns]),
        )
    return groups


def content_groups(sha256: Sequence[str], hashes: Sequence[bytes], max_bits: int) -> Integers:
    """A number for every image: equal files and chains of near-duplicates share one."""
    firsts: dict[str, int] = {}
    members = [firsts.setdefault(digest, len(firsts)) for digest in sha256]
    # One image of each set of equal files is enough to compare.
    unique = dict(zip(members, hashes, strict=True))
    table = np.stack([np.frombuffer(unique[i], np.uint8) for i in range(len(firsts))])
    groups: Integers = near_duplicate_groups(table, max_bits)[np.array(members)]
    return groups
