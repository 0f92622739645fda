"""One task on one network: train the whole grid on stored features and choose a head by validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from panendofm.atlas import TRAIN, VALIDATION, Task
from panendofm.linear_probe.config import GridConfig, TrainingConfig
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.grid import loss_weights, macro_auc, train_heads
from panendofm.linear_probe.heads.logistic import fit_logistic
from panendofm.runtime.console import progress
from panendofm.scoring.classification.calibration import cross_entropy, fit_temperature
from panendofm.scoring.classification.metrics import Floats, Targets

Protocol = Literal["published", "converged"]


@dataclass(frozen=True)
class Head:
    """A linear map from features to logits. It works on raw features: scaling is folded into the weights."""

    description: str
    columns: Columns
    weight: Tensor  # [D, C]
    bias: Tensor  # [C]
    validation_auc: float
    validation_loss: float
    temperature: float = 1.0
    seeded: bool = True  # whether another seed would give another head

    def logits(self, features: Tensor) -> Floats:
        """features [N, width] as stored → [N, C]."""
        chosen = features[:, self.columns.start : self.columns.stop].to(self.weight.device)
        result: Floats = (chosen @ self.weight + self.bias).double().cpu().numpy()
        return result


@dataclass(frozen=True)
class Trained:
    head: Head
    tried: list[Head]


@dataclass(frozen=True)
class _Data:
    """Training and validation rows of a task."""

    x: Tensor
    y: Targets
    x_validation: Tensor
    y_validation: Targets
    weights: Floats


def train_probe(
    task: Task,
    sides: np.ndarray,
    features: Tensor,
    columns: list[Columns],
    protocol: Protocol,
    config: GridConfig,
    known: Sequence[Head] = (),
) -> Trained:
    """features [n, width] and sides [n] of the task's rows. The test rows are not looked at.

    `known`: heads of the same data with another seed; those that do not depend on it are not trained again.
    """
    with progress(f"heads of {task.name}", 0, "epochs and iterations") as bar:
        return _train(task, sides, features, columns, protocol, config, known, bar.advance)


def _train(
    task: Task,
    sides: np.ndarray,
    features: Tensor,
    columns: list[Columns],
    protocol: Protocol,
    config: GridConfig,
    known: Sequence[Head],
    advance: Callable[[], object],
) -> Trained:
    train, validation = sides == TRAIN, sides == VALIDATION
    y, y_validation = task.targets[train], task.targets[validation]
    weights = loss_weights(y, task.levels)
    tried: list[Head] = []
    for choice in columns:
        x = features[:, choice.start : choice.stop]
        data = _Data(x[torch.from_numpy(train)], y, x[torch.from_numpy(validation)], y_validation, weights)
        if protocol == "published":
            tried += _by_gradient(data, choice, config.learning_rates, config.training, advance)
        else:
            mean, spread = data.x.mean(0), data.x.std(0).clamp_min(1e-6)
            scaled = _Data((data.x - mean) / spread, y, (data.x_validation - mean) / spread, y_validation, weights)
            heads = _by_gradient(scaled, choice, config.converged_learning_rates, config.training, advance)
            same = [head for head in known if head.columns == choice and not head.seeded]
            if not same:
                heads += _by_logistic(scaled, choice, config.converged_strengths, advance)
            tried += [_unscaled(head, mean, spread) for head in heads] + same
    best = choose(tried)
    logits = best.logits(features[torch.from_numpy(validation)])
    temperature = fit_temperature(y_validation, logits)
    return Trained(Head(**{**vars(best), "temperature": temperature}), tried)


def choose(heads: list[Head]) -> Head:
    """The highest validation AUC; among equals the lowest validation loss, then the first."""
    return min(heads, key=lambda head: (-round(head.validation_auc, 9), head.validation_loss))


def _by_gradient(
    data: _Data, columns: Columns, rates: list[float], config: TrainingConfig, advance: Callable[[], object]
) -> list[Head]:
    trained = train_heads(
        data.x,
        torch.from_numpy(data.y),
        torch.from_numpy(data.weights).to(data.x.dtype),
        data.x_validation,
        torch.from_numpy(data.y_validation),
        rates,
        config,
        advance,
    )
    return [
        _head(data, f"lr {rate:g}, {epochs} epochs", columns, trained.weights[h], trained.biases[h])
        for h, (rate, epochs) in enumerate(zip(rates, trained.epochs, strict=True))
    ]


def _by_logistic(data: _Data, columns: Columns, strengths: list[float], advance: Callable[[], object]) -> list[Head]:
    classes = data.y.shape[1]
    y, weights = torch.from_numpy(data.y).double(), torch.from_numpy(data.weights)
    # The mean weight of a class's terms is 1, so that a strength means the same in every task.
    weights = weights / weights.mean(0).clamp_min(1e-12)
    solved = fit_logistic(
        data.x.double(),
        y.repeat(1, len(strengths)),
        weights.repeat(1, len(strengths)),
        torch.tensor(strengths, dtype=torch.float64).repeat_interleave(classes),
        tolerance=1e-5,
        advance=advance,
    )
    heads = []
    for i, strength in enumerate(strengths):
        own = slice(i * classes, (i + 1) * classes)
        weight, bias = solved.weights[:, own].to(data.x.dtype), solved.biases[own].to(data.x.dtype)
        head = _head(data, f"logistic regression, penalty {strength:g}", columns, weight, bias)
        heads.append(replace(head, seeded=False))
    return heads


def _head(data: _Data, description: str, columns: Columns, weight: Tensor, bias: Tensor) -> Head:
    logits = data.x_validation @ weight + bias  # [V, C]
    auc = macro_auc(torch.from_numpy(data.y_validation), logits[:, None])[0]
    loss = cross_entropy(data.y_validation, logits.double().numpy())
    return Head(f"{columns.name}, {description}", columns, weight, bias, auc, loss)


def _unscaled(head: Head, mean: Tensor, spread: Tensor) -> Head:
    """The same head for features before (x − mean) / spread."""
    weight = head.weight / spread[:, None]
    return Head(**{**vars(head), "weight": weight, "bias": head.bias - mean @ weight})
