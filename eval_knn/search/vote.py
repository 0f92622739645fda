"""Class scores of queries from their nearest gallery rows: DINOv2's weighted vote.

weights = softmax(similarity / temperature) over the largest max(ks) similarities
score of class c at k = sum of the weights of the first k neighbors that are of class c
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from eval_knn.config import SearchConfig
from eval_knn.search.groups import Groups
from eval_knn.search.neighbors import Integers, Neighbors, nearest, unit_rows
from panendofm.backbone import gather_rows, rank_and_world, share_of


@dataclass(frozen=True)
class Scored:
    """`scores[k]` [Q, C] for each k that was asked for, and the neighbors that they come from."""

    scores: dict[int, NDArray[np.float64]]
    neighbors: Neighbors


def class_scores(
    query_features: NDArray[np.float32],
    gallery_features: NDArray[np.float32],
    gallery_labels: Integers,
    classes: int,
    ks: Sequence[int] = (10, 20, 100, 200),
    temperature: float = 0.07,
    search: SearchConfig | None = None,
    groups: Groups | None = None,
    group: dist.ProcessGroup | None = None,
    unit: bool = False,
) -> Scored:
    """Scores of all queries, on every rank; the ranks share the work. A k past the gallery means the whole gallery.

    `groups` keeps queries from gallery rows of their own group. `unit`: the rows have length 1 already, so that no
    copy is made.
    """
    rank, world = rank_and_world(group)
    first, last = share_of(len(query_features), rank, world)
    queries = query_features[first:last]
    if not unit:
        queries = unit_rows(queries)
        gallery_features = unit_rows(gallery_features)
    own_groups = None if groups is None else groups.of(slice(first, last))
    share = nearest(queries, gallery_features, max(ks), search, own_groups)
    rows = gather_rows(torch.from_numpy(share.rows), len(query_features), group).numpy()
    similarities = gather_rows(torch.from_numpy(share.similarities), len(query_features), group).numpy()
    neighbors = Neighbors(rows, similarities, share.recall)
    return Scored(vote(neighbors, gallery_labels, classes, ks, temperature), neighbors)


def vote(
    neighbors: Neighbors, gallery_labels: Integers, classes: int, ks: Sequence[int], temperature: float
) -> dict[int, NDArray[np.float64]]:
    """Scores [Q, C] for each k from neighbors [Q, max(ks)]."""
    logits = neighbors.similarities.astype(np.float64) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True, initial=np.finfo(np.float64).min))
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)  # [Q, k]
    labels = np.where(neighbors.rows >= 0, gallery_labels[neighbors.rows], 0)  # a missing neighbor weighs 0
    scores = {}
    for k in ks:
        sums = torch.zeros(len(labels), classes, dtype=torch.float64)
        sums.scatter_add_(1, torch.from_numpy(labels[:, :k]), torch.from_numpy(weights[:, :k]))
        scores[k] = sums.numpy()
    return scores
