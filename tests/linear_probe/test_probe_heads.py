"""Training of heads: weights, schedule, stopping and choice by hand; optimum by analysis; updates by torch itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import nn

from panendofm.atlas.panendox.tasks import Level, Task
from panendofm.atlas.split import TEST, TRAIN, VALIDATION
from panendofm.linear_probe.config import GridConfig, TrainingConfig
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.grid import _adamw_step, class_weights, gradient, loss_weights, macro_auc, train_heads
from panendofm.linear_probe.heads.logistic import fit_logistic
from panendofm.linear_probe.heads.probe import Head, choose, train_probe
from panendofm.linear_probe.heads.schedule import warm_restarts
from panendofm.scoring.classification import metrics


def test_class_weights_by_hand() -> None:
    targets = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0]], bool)
    # N = 4: log(1 + 4/3), log(1 + 4/1); a class without images weighs nothing.
    np.testing.assert_allclose(class_weights(targets), [math.log(7 / 3), math.log(5), 0.0])


def test_loss_weights_by_hand_with_two_levels_and_two_classes_at_once() -> None:
    targets = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 1, 0]], bool)
    levels = (Level("a", 0, 2), Level("b", 2, 5))
    one, two = math.log(1 + 2 / 1), math.log(1 + 2 / 2)
    expected = [
        [one / 2, one / 2, *[(one + two) / 2 / 3] * 3],  # level b: the mean of its two classes
        [one / 2, one / 2, *[two / 3] * 3],
    ]
    np.testing.assert_allclose(loss_weights(targets, levels), expected)


def test_schedule_is_torchs_and_by_hand() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([parameter], lr=1e-4)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10, T_mult=2, eta_min=1e-6)
    for epoch in range(75):
        assert warm_restarts(1e-4, epoch, 10, 2, 1e-6) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        theirs.step()
    assert warm_restarts(1e-4, 0, 10, 2, 1e-6) == 1e-4
    assert warm_restarts(1e-4, 5, 10, 2, 1e-6) == pytest.approx((1e-4 + 1e-6) / 2)
    assert [e for e in range(75) if warm_restarts(1e-4, e, 10, 2, 1e-6) == 1e-4] == [0, 10, 30, 70]


def test_gradient_is_autograds() -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.randn(6, 4), torch.ones(6, 1)], 1)
    y, weights = (torch.rand(6, 3) < 0.5).float(), torch.rand(6, 3)
    w = torch.randn(5, 2, 3, requires_grad=True)
    for head in range(2):
        logits = x @ w[:, head]
        terms = nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
        ((weights * terms).sum(1).mean()).backward()
    torch.testing.assert_close(gradient(w.detach(), x, y, weights), w.grad)


def test_update_is_torchs_adamw_for_every_learning_rate() -> None:
    torch.manual_seed(0)
    start, rates = torch.randn(5, 2, 3), [1e-2, 1e-4]
    ours, m, v = start.clone(), torch.zeros(5, 2, 3), torch.zeros(5, 2, 3)
    theirs = [nn.Parameter(start[:, h].clone()) for h in range(2)]
    optimizers = [torch.optim.AdamW([p], lr=r, weight_decay=0.01) for p, r in zip(theirs, rates, strict=True)]
    for step in range(1, 20):
        grads = torch.randn(5, 2, 3)
        _adamw_step(ours, m, v, grads, torch.tensor(rates)[None, :, None], step, 0.01)
        for h in range(2):
            theirs[h].grad = grads[:, h].clone()
            optimizers[h].step()
    for h in range(2):
        torch.testing.assert_close(ours[:, h], theirs[h].data)


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.integers(2, 30))
def test_fast_auc_is_the_exact_one(seed: int, n: int) -> None:
    random = np.random.default_rng(seed)
    targets = random.random((n, 3)) < 0.4
    scores = random.integers(-3, 4, (n, 2, 3)).astype(np.float32)  # many ties
    expected = [metrics.macro(metrics.roc_auc(targets, scores[:, h])) for h in range(2)]
    ours = macro_auc(torch.from_numpy(targets), torch.from_numpy(scores))
    if np.isnan(expected[0]):
        assert ours == [0.0, 0.0]
    else:
        assert ours == pytest.approx(expected, abs=1e-9)


def _data(n: int, separable: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    x = torch.randn(n, 4)
    y = x[:, :1] > 0 if separable else torch.rand(n, 1) < torch.sigmoid(2 * x[:, :1])
    return x, y


def test_a_separable_problem_is_separated() -> None:
    x, y = _data(600)
    apart = x[:, 0].abs() > 0.3
    x, y = x[apart], y[apart]
    config = TrainingConfig(batch_size=64, max_epochs=60)
    heads = train_heads(x[:300], y[:300], torch.ones(300, 1), x[300:], y[300:], [0.1], config)
    logits = x[300:] @ heads.weights[0] + heads.biases[0]
    assert heads.validation_auc[0] == 1.0
    assert torch.equal(logits > 0, y[300:])
    direction = heads.weights[0][:, 0] / heads.weights[0].norm()
    assert direction[0] > 0.95  # the one coordinate that decides


def test_steps_lead_to_the_optimum_of_a_convex_problem() -> None:
    """With one constant feature the best logit is known: the log of the weighted odds, here 30·0.5 to 10·1."""
    y = torch.tensor([[1.0]] * 30 + [[0.0]] * 10)
    weights = torch.cat([torch.full((30, 1), 0.5), torch.ones(10, 1)])
    x = torch.cat([torch.zeros(40, 1), torch.ones(40, 1)], 1)
    w = torch.zeros(2, 1, 1)
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    for step in range(1, 1001):
        rate = torch.full((1, 1, 1), 0.05 / step**0.5)
        _adamw_step(w, m, v, gradient(w, x, y, weights), rate, step, 0.0)
    assert float(w[1]) == pytest.approx(math.log(15 / 10), abs=1e-3)


def test_each_head_stops_by_itself_and_keeps_its_best_epoch() -> None:
    x, y = _data(200)
    # Shown the opposite of what it learns, a head gets worse from the first epoch on: best at 0, stopped after 3 more.
    config = TrainingConfig(batch_size=50, patience_epochs=3, max_epochs=50)
    heads = train_heads(x[:150], y[:150], torch.ones(150, 1), x[150:], ~y[150:], [0.5, 1e-12], config)
    assert heads.best_epoch[0] < 5
    assert heads.epochs[0] == heads.best_epoch[0] + 3 + 1
    # What is kept are the weights of that epoch, not of the last one.
    kept = torch.stack([x[150:] @ heads.weights[h] + heads.biases[h] for h in range(2)], 1)  # [V, H, C]
    assert macro_auc(~y[150:], kept) == pytest.approx(heads.validation_auc, abs=1e-9)
    # A head that hardly moves never improves on its first epoch.
    frozen = TrainingConfig(batch_size=50, patience_epochs=3, max_epochs=50, floor_learning_rate=0.0, weight_decay=0.0)
    still = train_heads(x[:150], y[:150], torch.ones(150, 1), x[150:], y[150:], [1e-12], frozen)
    assert still.best_epoch == [0] and still.epochs == [4]
    limited = TrainingConfig(batch_size=50, max_epochs=2)
    assert train_heads(x, y, torch.ones(200, 1), x, y, [0.1], limited).epochs == [2]


def test_heads_trained_together_are_those_trained_alone() -> None:
    x, y = _data(200, separable=False)
    config = TrainingConfig(batch_size=32, max_epochs=30, patience_epochs=4)
    arguments = (x[:150], y[:150], torch.ones(150, 1), x[150:], y[150:])
    together = train_heads(*arguments, [1e-1, 1e-2, 1e-3], config)
    for h, rate in enumerate([1e-1, 1e-2, 1e-3]):
        alone = train_heads(*arguments, [rate], config)
        assert alone.epochs[0] == together.epochs[h]
        torch.testing.assert_close(alone.weights[0], together.weights[h], rtol=1e-4, atol=1e-6)


def _head(name: str, auc: float, loss: float) -> Head:
    return Head(name, Columns("cls", 0, 1), torch.zeros(1, 1), torch.zeros(1), auc, loss)


def test_choice_by_validation_auc_then_loss_then_order() -> None:
    heads = [_head("a", 0.8, 0.1), _head("b", 0.9, 0.5), _head("c", 0.9, 0.4), _head("d", 0.9, 0.4)]
    assert choose(heads).description == "c"


def _task(n: int, sides: np.ndarray) -> tuple[Task, torch.Tensor]:
    random = np.random.default_rng(0)
    label = random.integers(0, 3, n)
    targets = np.eye(3, dtype=bool)[label]
    features = torch.from_numpy(np.eye(3)[label] * 2 + random.normal(size=(n, 3))).float() * 50 + 7
    task = Task("t", "t", ("a", "b", "c"), (Level("", 0, 3),), True, np.arange(n), targets)
    return task, features


@pytest.mark.parametrize("protocol", ["published", "converged"])
def test_test_images_take_no_part_in_training_or_choice(protocol: str) -> None:
    sides = np.random.default_rng(1).choice([TRAIN, VALIDATION, TEST], 300, p=[0.6, 0.2, 0.2])
    task, features = _task(300, sides)
    config = GridConfig(training=TrainingConfig(max_epochs=15))
    columns = [Columns("cls", 0, 3)]
    first = train_probe(task, sides, features, columns, protocol, config)  # type: ignore[arg-type]
    spoiled = features.clone()
    spoiled[torch.from_numpy(sides == TEST)] = torch.nan
    targets = task.targets.copy()
    targets[sides == TEST] = ~targets[sides == TEST]
    other = Task("t", "t", task.classes, task.levels, True, task.rows, targets)
    second = train_probe(other, sides, spoiled, columns, protocol, config)  # type: ignore[arg-type]
    assert first.head.description == second.head.description
    assert torch.equal(first.head.weight, second.head.weight)
    tried = {"published": 5, "converged": 6 + 5}[protocol]
    assert len(first.tried) == tried
    # The head works on raw features, though the converged one was trained on scaled ones.
    if protocol == "converged":
        train = torch.from_numpy(sides == TRAIN)
        assert metrics.macro(metrics.roc_auc(task.targets[sides == TRAIN], first.head.logits(features[train]))) > 0.9


@pytest.mark.parametrize("protocol", ["published", "converged"])
def test_the_head_is_chosen_by_validation_where_training_says_otherwise(protocol: str) -> None:
    """On validation the classes have changed places: the better a head learns, the worse it does there."""
    sides = np.random.default_rng(1).choice([TRAIN, VALIDATION], 300, p=[0.7, 0.3])
    task, features = _task(300, sides)
    task.targets[sides == VALIDATION] = np.roll(task.targets[sides == VALIDATION], 1, axis=1)
    config = GridConfig(learning_rates=[0.3, 1e-6], training=TrainingConfig(max_epochs=15))
    trained = train_probe(task, sides, features, [Columns("cls", 0, 3)], protocol, config)  # type: ignore[arg-type]

    def auc(head: Head, side: int) -> float:
        rows = sides == side
        return metrics.macro(metrics.roc_auc(task.targets[rows], head.logits(features[torch.from_numpy(rows)])))

    on_validation = [auc(head, VALIDATION) for head in trained.tried]
    assert [head.validation_auc for head in trained.tried] == pytest.approx(on_validation, abs=1e-3)
    assert auc(trained.head, VALIDATION) == pytest.approx(max(on_validation), abs=1e-3)
    assert auc(trained.head, TRAIN) < max(auc(head, TRAIN) for head in trained.tried) - 0.05


# --------------------------------------------------------------------------------------------- logistic regression


@pytest.mark.parametrize(("n", "depth"), [(120, 8), (30, 60)])
def test_logistic_regression_is_scikit_learns(n: int, depth: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(n, depth, dtype=torch.float64)
    y = (x[:, :3] + torch.randn(n, 3) > 0.3).double()
    weights = torch.rand(n, 1).double() + 0.5
    strengths = torch.tensor([1e-3, 1e-1, 10.0], dtype=torch.float64)
    solved = fit_logistic(
        x, y.repeat(1, 3), weights.expand(n, 9), strengths.repeat_interleave(3), tolerance=1e-9, max_iterations=5000
    )
    assert float(solved.gradient.max()) <= 1e-9
    for i, strength in enumerate(strengths.tolist()):
        for c in range(3):
            theirs = LogisticRegression(C=1 / (strength * n), tol=1e-12, max_iter=20000)
            theirs.fit(x.numpy(), y[:, c].numpy(), sample_weight=weights[:, 0].numpy())
            ours = solved.weights[:, 3 * i + c].numpy()
            np.testing.assert_allclose(ours, theirs.coef_[0], atol=2e-5, rtol=1e-4)
            assert float(solved.biases[3 * i + c]) == pytest.approx(theirs.intercept_[0], abs=1e-4)


def test_logistic_regression_of_a_constant_is_the_log_odds() -> None:
    x = torch.zeros(40, 1, dtype=torch.float64)
    y = torch.tensor([[1.0]] * 30 + [[0.0]] * 10, dtype=torch.float64)
    solved = fit_logistic(x, y, torch.ones(40, 1), torch.tensor([1.0]), tolerance=1e-9)
    assert float(solved.biases[0]) == pytest.approx(math.log(3), abs=1e-7)
    assert float(solved.weights[0, 0]) == 0.0
    assert float(solved.objective[0]) == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25), abs=1e-9)


def test_correlated_features_need_few_iterations() -> None:
    """As features are: a few directions hold nearly all of the spread. Plain L-BFGS takes hundreds of iterations."""
    torch.manual_seed(0)
    scales = torch.logspace(1.5, -2, 40, dtype=torch.float64)
    x = (torch.randn(600, 40, dtype=torch.float64) * scales) @ torch.linalg.qr(torch.randn(40, 40).double())[0]
    y = (x[:, :1] + x[:, 1:2] + 3 * torch.randn(600, 1) > 4).double()
    strengths = torch.tensor([1e-4, 1e-2], dtype=torch.float64)
    solved = fit_logistic(x, y.repeat(1, 2), torch.ones(600, 2), strengths, tolerance=1e-7, max_iterations=200)
    assert float(solved.gradient.max()) <= 1e-7 and solved.iterations <= 60
    for i, strength in enumerate(strengths.tolist()):
        theirs = LogisticRegression(C=1 / (strength * 600), tol=1e-10, max_iter=20000, solver="newton-cholesky")
        theirs.fit(x.numpy(), y[:, 0].numpy())
        np.testing.assert_allclose(solved.weights[:, i].numpy(), theirs.coef_[0], atol=2e-3)
    nothing = fit_logistic(x, y, torch.zeros(600, 1), strengths[:1])
    assert float(nothing.biases[0]) == 0.0 and not nothing.weights.any()


def test_a_long_training_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The converged protocol on a real network takes many minutes: a line comes now and then, from both solvers."""
    from panendofm.runtime import console

    monkeypatch.setattr(console, "PROGRESS_EVERY_SECONDS", 0.0)
    sides = np.random.default_rng(1).choice([TRAIN, VALIDATION], 300, p=[0.7, 0.3])
    task, features = _task(300, sides)
    config = GridConfig(training=TrainingConfig(max_epochs=15))
    train_probe(task, sides, features, [Columns("cls", 0, 3)], "converged", config)
    said = [line for line in capsys.readouterr().out.splitlines() if f"heads of {task.name}: " in line]
    counts = [int(line.split(": ")[1].split()[0]) for line in said]
    assert counts == sorted(counts) and counts[-1] > 20, "epochs, then iterations"
