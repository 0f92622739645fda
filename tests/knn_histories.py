"""Recorded histories of a run's evaluations, for the tests of everything that decides by them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from eval_knn import Evaluation, paired_bootstrap
from panendofm.records.evaluation import encode_ranks

QUERIES = 1000


def recorded(
    top1: list[float],
    rankme: list[float] | None = None,
    top5: list[float] | None = None,
    seed: int = 0,
    queries: int = QUERIES,
    noise: float = 0.03,
) -> list[Evaluation]:
    """A history with these accuracies: every query has a difficulty, and each checkpoint its own noise on top."""
    random = np.random.default_rng(seed)
    difficulty = random.random(queries)
    history = []
    for number, share in enumerate(top1):
        share5 = top5[number] if top5 is not None else min(1.0, share + 0.15)
        order = np.argsort(difficulty + random.normal(0, noise, queries))  # easiest first
        rank = np.full(queries, 6)
        rank[order[: round(share5 * queries)]] = 3
        rank[order[: round(share * queries)]] = 0
        history.append(
            Evaluation(
                f"step_{number}",
                number,
                {
                    "top1_k20": float((rank == 0).mean()),
                    "top5_k100": float((rank < 5).mean()),
                    "rankme": (rankme or [50.0] * len(top1))[number],
                },
                {"20": encode_ranks(rank), "100": encode_ranks(rank)},
            )
        )
    return history


def falling() -> list[Evaluation]:
    """As it was once recorded on 384 images: the score falls while RankMe rises.

    Each fall is within the noise of the checkpoint before; whoever compares with that one alone goes all the way down.
    """
    history = recorded([0.766, 0.737, 0.708, 0.682], [32, 51, 70, 88], queries=384, noise=0.2)
    for before, now in pairwise(history):
        assert paired_bootstrap(now, before, "top1_k20")[2] >= 0
    assert paired_bootstrap(history[-1], history[0], "top1_k20")[2] < 0
    return history


RISING = recorded([0.40, 0.52, 0.60, 0.66, 0.70, 0.73])
FLAT = recorded([0.700, 0.704, 0.699, 0.703, 0.701, 0.698, 0.702, 0.700], [60, 61, 64, 62, 61, 60, 59, 61])
COLLAPSING = recorded([0.70, 0.74, 0.78, 0.60, 0.30, 0.15, 0.13, 0.12], [80, 85, 90, 40, 12, 3, 1.2, 1.0])
SATURATED = recorded([0.80, 0.86, 0.90, 0.88], top5=[0.999, 1.0, 1.0, 1.0])
FALLING = falling()
