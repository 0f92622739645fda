"""Groups: chains of links and of near-duplicates."""

from __future__ import annotations

import networkx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panendofm.imaging.groups import connected_groups, linked_groups, near_duplicate_groups


@given(st.integers(1, 30), st.data())
def test_groups_are_the_connected_components_of_networkx(count: int, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=40))
    table = np.array(pairs, np.int64).reshape(-1, 2)
    groups = connected_groups(count, table[:, 0], table[:, 1])
    graph = networkx.Graph(pairs)
    graph.add_nodes_from(range(count))
    ours = {frozenset(np.flatnonzero(groups == number).tolist()) for number in range(int(groups.max()) + 1)}
    assert ours == {frozenset(part) for part in networkx.connected_components(graph)}
    firsts = [int(np.flatnonzero(groups == number)[0]) for number in range(int(groups.max()) + 1)]
    assert firsts == sorted(firsts)


def test_links_join_samples_along_chains_and_a_sample_without_links_is_alone() -> None:
    assert linked_groups([["a"], ["b"], [], ["c", "a"], ["c"], ["b"]]).tolist() == [0, 1, 2, 0, 0, 1]
    assert linked_groups([]).tolist() == []


def test_near_duplicates_across_blocks_of_the_distance_matrix() -> None:
    """More rows than one block: copies far apart in the list, and a chain that closes only in a later block."""
    hashes = np.random.default_rng(0).integers(0, 256, (1300, 32), np.uint8)
    hashes[1299] = hashes[3]
    hashes[700] = hashes[3]
    hashes[700, 0] ^= 1
    groups = near_duplicate_groups(hashes, 1)
    assert groups[3] == groups[700] == groups[1299]
    assert len(np.unique(groups)) == 1298


def test_groups_follow_chains_and_are_numbered_by_first_member() -> None:
    hashes = np.zeros((6, 4), np.uint8)
    hashes[0] = 0xFF  # alone
    hashes[2, 0] = 0b1  # one bit from row 1
    hashes[4, 0] = 0b11  # one bit from row 2, two from row 1
    hashes[5, 1:] = 0xF0  # alone
    assert near_duplicate_groups(hashes, 1).tolist() == [0, 1, 1, 1, 1, 2]
    assert near_duplicate_groups(hashes, 0).tolist() == [0, 1, 2, 1, 3, 4]
    assert near_duplicate_groups(np.zeros((0, 4), np.uint8), 1).tolist() == []
