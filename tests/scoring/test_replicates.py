"""Figures under bootstrap weights, against their definitions on the drawn samples."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from panendofm.scoring.answers.choices import class_f1
from panendofm.scoring.statistics.intervals import group_weights
from panendofm.scoring.statistics.replicates import (
    macro_f1_replicates,
    macro_replicates,
    mean_replicates,
    reader_shares,
)


def test_each_row_is_the_figure_of_the_samples_that_it_draws() -> None:
    random = np.random.default_rng(5)
    gold = [str(name) for name in random.choice(list("abc"), 24)]
    answers = [None if random.uniform() < 0.2 else str(random.choice(list("abcd"))) for _ in gold]
    values = random.uniform(size=24)
    weights = group_weights(np.arange(24) // 2, 12, 3)
    means, macros = mean_replicates(values, weights), macro_replicates(values, gold, weights)
    f1 = macro_f1_replicates(gold, answers, weights)
    for row, (mean, macro, score) in enumerate(zip(means, macros, f1, strict=True)):
        drawn = np.repeat(np.arange(24), weights[row].astype(int))
        own = [gold[n] for n in drawn]
        assert mean == pytest.approx(values[drawn].mean())
        by_class = [values[[n for n in drawn if gold[n] == name]].mean() for name in sorted(set(own))]
        assert macro == pytest.approx(np.mean(by_class))
        said = [answers[n] or "nothing" for n in drawn]
        assert score == pytest.approx(f1_score(own, said, labels=sorted(set(own)), average="macro"))
    everything = np.ones((1, 24))
    assert macro_f1_replicates(gold, answers, everything)[0] == pytest.approx(
        np.mean(list(class_f1(gold, answers).values()))
    )


def test_a_draw_without_any_sample_gives_no_figure() -> None:
    nothing = np.zeros((1, 2))
    assert np.isnan(mean_replicates(np.ones(2), nothing)[0])
    assert np.isnan(macro_replicates(np.ones(2), ["a", "b"], nothing)[0])
    assert np.isnan(macro_f1_replicates(["a", "b"], ["a", "b"], nothing)[0])


def test_readers_are_drawn_with_replacement() -> None:
    shares = reader_shares(3, 200, 1)
    assert shares.sum(axis=1) == pytest.approx(np.ones(200))
    assert (shares == 1).any() and (shares == 1 / 3).all(axis=1).any()
