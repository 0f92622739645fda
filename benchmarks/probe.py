"""The probe's training beside plain ways to do the same, as ratios measured in one run.

    python benchmarks/probe.py [--images 4000] [--width 1024] [--classes 14] [--epochs 5] [--repeats 3]

1. The published grid (five learning rates) on stored features: all heads at once, against a plain PyTorch loop
   (nn.Linear, AdamW, DataLoader, scikit-learn's AUC each epoch) that trains the five one after the other; and against
   the same loop with what makes it slow taken out (no DataLoader, our AUC).
2. Logistic regression for all classes and strengths at once, against scikit-learn's, one by one, to the same objective.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from panendofm.atlas.panendox.tasks import Level
from panendofm.linear_probe.config import PUBLISHED_LEARNING_RATES, TrainingConfig
from panendofm.linear_probe.heads.grid import loss_weights, macro_auc, train_heads
from panendofm.linear_probe.heads.logistic import fit_logistic


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def plain_loop(x: Tensor, y: Tensor, w: Tensor, xv: Tensor, yv: Tensor, epochs: int, tuned: bool) -> None:
    for rate in PUBLISHED_LEARNING_RATES:
        head = nn.Linear(x.shape[1], y.shape[1])
        optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10, T_mult=2, eta_min=1e-6)
        loader = DataLoader(TensorDataset(x, y, w), batch_size=128, shuffle=True)
        for _ in range(epochs):
            order = torch.randperm(len(x))
            batches = ((x[i], y[i], w[i]) for i in order.split(128)) if tuned else loader
            for features, targets, weights in batches:
                optimizer.zero_grad()
                terms = F.binary_cross_entropy_with_logits(head(features), targets, reduction="none")
                (terms * weights).sum(1).mean().backward()
                optimizer.step()
            schedule.step()
            with torch.no_grad():
                logits = head(xv)
            if tuned:
                macro_auc(yv.bool(), logits[:, None])
            else:
                roc_auc_score(yv.numpy(), logits.numpy(), average="macro")


def compare_grid(images: int, width: int, classes: int, epochs: int, repeats: int) -> None:
    torch.manual_seed(0)
    label = torch.randint(classes, (images + images // 8,))
    x = torch.randn(len(label), width) + torch.randn(classes, width)[label] * 0.1
    y = F.one_hot(label, classes).float()
    w = torch.from_numpy(loss_weights(y[:images].bool().numpy(), (Level("", 0, classes),))).float()
    config = TrainingConfig(max_epochs=epochs, patience_epochs=epochs + 1)  # equal work for all
    parts = (x[:images], y[:images], w, x[images:], y[images:])
    ways: dict[str, Callable[[], object]] = {
        "all heads at once": lambda: train_heads(
            *parts[:3], parts[3], parts[4].bool(), PUBLISHED_LEARNING_RATES, config
        ),
        "plain loop": lambda: plain_loop(*parts, epochs, False),
        "plain loop, tuned": lambda: plain_loop(*parts, epochs, True),
    }
    report(f"published grid: {images} images × {width}, {classes} classes, {epochs} epochs", ways, repeats)


def compare_logistic(images: int, width: int, classes: int, repeats: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(images, width, dtype=torch.float64)
    y = (x @ torch.randn(width, classes, dtype=torch.float64) * 0.1 + torch.randn(images, classes) > 1).double()
    strengths = [1e-3, 1e-2, 1e-1]
    penalties = torch.tensor(strengths, dtype=torch.float64).repeat_interleave(classes)
    found: dict[str, Tensor] = {}

    def ours() -> None:
        ones = torch.ones(images, len(penalties))
        found["ours"] = fit_logistic(x, y.repeat(1, len(strengths)), ones, penalties, tolerance=1e-6).objective

    def theirs() -> None:
        values = []
        for strength in strengths:
            for c in range(classes):
                model = LogisticRegression(C=1 / (strength * images), tol=1e-6, max_iter=2000)
                model.fit(x.numpy(), y[:, c].numpy())
                weight = torch.from_numpy(model.coef_[0])
                z = x @ weight + model.intercept_[0]
                values.append((F.softplus(z) - y[:, c] * z).mean() + strength / 2 * weight @ weight)
        found["theirs"] = torch.stack(values)

    title = f"logistic regression: {images} images × {width}, {classes} classes × {len(strengths)} strengths"
    report(title, {"all at once": ours, "scikit-learn": theirs}, repeats)
    excess = ((found["ours"] - found["theirs"]) / found["theirs"]).max()
    print(f"  objective above scikit-learn's, worst of all: {float(excess):+.1e} (relative)")


def report(title: str, ways: dict[str, Callable[[], object]], repeats: int) -> None:
    """Turn by turn, so that other work on the machine meets all of them alike; the median counts."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            times[name].append(seconds(work))
    print(title)
    first = statistics.median(next(iter(times.values())))
    for name, values in times.items():
        print(f"  {name:20s} {statistics.median(values):8.3f} s   {statistics.median(values) / first:5.1f}×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"images": 4000, "width": 1024, "classes": 14, "epochs": 5, "repeats": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    compare_grid(a.images, a.width, a.classes, a.epochs, a.repeats)
    compare_grid(400, a.width, 3, 4 * a.epochs, a.repeats)
    compare_logistic(1000, 256, 6, a.repeats)


if __name__ == "__main__":
    main()
