"""Train segmentation heads and choose among them on validation: head, block, regularization and thresholds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from panendofm.linear_probe.dense.config import FitConfig
from panendofm.linear_probe.dense.heads.layers import Decoder, DecoderHead, Head, LinearHead, folded, standardization
from panendofm.linear_probe.dense.maps import Block, Maps
from panendofm.linear_probe.heads.logistic import fit_logistic
from panendofm.runtime.console import track

THRESHOLDS = np.round(np.arange(0.10, 0.91, 0.05), 2)
# Choices are made on maps enlarged by this much; metrics on images of their own size.
ENLARGED = 4
_DICE_SMOOTH = 1.0


@dataclass(frozen=True)
class Chosen:
    kind: str
    head: Head
    thresholds: tuple[float, ...]  # [K]
    validation_iou: float
    description: str


@dataclass(frozen=True)
class Sides:
    """Which images train and which choose, and the truth on the grid and enlarged."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    shares: NDArray[np.float32]  # [N, K, rows, columns]
    enlarged: NDArray[np.bool_]  # [N, K, ENLARGED·rows, ENLARGED·columns]


def train_segmentation(maps: Maps, sides: Sides, kinds: Sequence[str], config: FitConfig) -> list[Chosen]:
    """Every asked kind of head, each with its best settings, the best one first."""
    makers: dict[str, Callable[[], Iterator[tuple[Head, str]]]] = {
        "linear": lambda: _linear(maps, sides, config, list(maps.layout.blocks)),
        "linear-4": lambda: _linear(maps, sides, config, [None]),
        "decoder": lambda: _decoder(maps, sides, config),
        "published": lambda: _published(maps, sides, config),
    }
    best = []
    for kind in kinds:
        tried = [_judge(kind, head, text, maps, sides) for head, text in makers[kind]()]
        best.append(max(tried, key=lambda c: c.validation_iou))
    return sorted(best, key=lambda c: -c.validation_iou)


def _judge(kind: str, head: Head, description: str, maps: Maps, sides: Sides) -> Chosen:
    rows, columns = maps.layout.grid
    size = (ENLARGED * rows, ENLARGED * columns)
    parts = []
    for some in np.array_split(sides.validation, -(-len(sides.validation) // 64)):
        probability = torch.sigmoid(head.logits(maps.of(some), maps.layout.grid))
        parts.append(F.interpolate(probability, size, mode="bilinear", align_corners=False).numpy())
    ious = iou_by_threshold(np.concatenate(parts), sides.enlarged[sides.validation])  # [T, K]
    at = ious.argmax(0)
    return Chosen(kind, head, tuple(THRESHOLDS[at].tolist()), float(ious.max(0).mean()), description)


def iou_by_threshold(probability: NDArray[np.float32], truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What thresholds are chosen by [T, K]; probability and truth [V, K, h, w].

    The mean of two readings: IoU over the images with a finding, and IoU of all pixels together, which false alarms
    in clean images lower. (Counting a correct «nothing» as 1 would make weak networks say nothing at all.)
    """
    result = np.zeros((len(THRESHOLDS), probability.shape[1]))
    size = truth.sum((2, 3))  # [V, K]
    shown = size > 0
    for number, threshold in enumerate(THRESHOLDS):
        own = probability >= threshold
        common, together = (own & truth).sum((2, 3)), own.sum((2, 3)) + size
        union = together - common
        single = np.where(shown, common / np.maximum(union, 1), 0.0).sum(0) / np.maximum(shown.sum(0), 1)
        result[number] = (single + common.sum(0) / np.maximum(union.sum(0), 1)) / 2
    return result


# ------------------------------------------------------------------------------------------------- linear heads


def sampled_fields(
    maps: Maps, rows: NDArray[np.int64], block: Block | None, limit: int, seed: int
) -> tuple[Tensor, NDArray[np.int64]]:
    """At most `limit` fields of the given images as x [n, D], and which they are among all [len(rows) · P]."""
    fields = maps.values.shape[1]
    total = len(rows) * fields
    if total <= limit:
        return maps.of(rows, block).flatten(0, 1), np.arange(total)
    # As many from each image, so that maps are read image by image.
    each = max(1, limit // len(rows))
    random = np.random.default_rng(seed)
    parts, numbers = [], []
    for place, row in enumerate(rows.tolist()):
        chosen = np.sort(random.choice(fields, each, replace=False))
        parts.append(maps.of([row], block)[0, torch.from_numpy(chosen)])
        numbers.append(place * fields + chosen)
    return torch.cat(parts), np.concatenate(numbers)


def _linear(maps: Maps, sides: Sides, config: FitConfig, blocks: Sequence[Block | None]) -> Iterator[tuple[Head, str]]:
    """Convex: L-BFGS for all strengths at once."""
    classes, strengths = sides.shares.shape[1], config.strengths
    targets = torch.from_numpy(sides.shares[sides.train]).flatten(2).mT.reshape(-1, classes)  # [n·P, K]
    for block in blocks:
        x, numbers = sampled_fields(maps, sides.train, block, config.max_fields, config.seed)
        mean, scale = standardization(x)
        x = (x - mean) * scale
        y = targets[torch.from_numpy(numbers)].repeat(1, len(strengths))  # [n, S·K]
        every = torch.tensor(strengths).repeat_interleave(classes)
        found = fit_logistic(x, y, torch.ones_like(y), every, config.tolerance, config.max_iterations)
        for number, strength in enumerate(strengths):
            own = slice(number * classes, (number + 1) * classes)
            head = folded(found.weights[:, own], found.biases[own], mean, scale, block)
            yield head, f"{block.name if block else 'all blocks'}, λ = {strength:g}"


# ------------------------------------------------------------------------------------------------- trained by steps


def _loss(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy and Dice; both [B, K, h, w], targets are shares."""
    cross = F.binary_cross_entropy_with_logits(logits, target)
    p = logits.sigmoid()
    common, total = (p * target).sum((2, 3)), (p + target).sum((2, 3))
    return cross + (1 - (2 * common + _DICE_SMOOTH) / (total + _DICE_SMOOTH)).mean()


def _decoder(maps: Maps, sides: Sides, config: FitConfig) -> Iterator[tuple[Head, str]]:
    x, _ = sampled_fields(maps, sides.train, None, config.max_fields, config.seed)
    mean, scale = standardization(x)
    random = torch.Generator().manual_seed(config.seed)
    classes, grid = sides.shares.shape[1], maps.layout.grid
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        decoder = Decoder(maps.layout.channels, classes)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=config.decoder_learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.decoder_steps)
    truth = sides.enlarged.astype(np.float32)
    for step in track(range(config.decoder_steps), "decoder", config.decoder_steps, "steps"):
        chosen = sides.train[torch.randint(len(sides.train), (config.batch_images,), generator=random).numpy()]
        x = ((maps.of(chosen) - mean) * scale).mT.reshape(len(chosen), -1, *grid)
        y = torch.from_numpy(truth[chosen])
        if step % 2:  # mirrored every other time
            x, y = x.flip(-1), y.flip(-1)
        loss = _loss(decoder(x), y)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    yield DecoderHead(mean, scale, decoder.eval()), f"decoder, {config.decoder_steps} steps"


def _published(maps: Maps, sides: Sides, config: FitConfig) -> Iterator[tuple[Head, str]]:
    """DINOv2's linear segmentation: batch norm and 1×1, AdamW 1e-3, warm-up, then down to 0 by a straight line."""
    random = torch.Generator().manual_seed(config.seed)
    classes, grid, channels = sides.shares.shape[1], maps.layout.grid, maps.layout.channels
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        head = torch.nn.Sequential(torch.nn.BatchNorm2d(channels), torch.nn.Conv2d(channels, classes, 1))
    torch.nn.init.normal_(head[1].weight, std=0.01, generator=random)  # type: ignore[arg-type]
    torch.nn.init.zeros_(head[1].bias)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3, weight_decay=1e-4)
    steps, warm_up = config.published_steps, max(1, round(config.published_steps * 1500 / 40000))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warm_up, max(0.0, (steps - s) / max(1, steps - warm_up)))
    )
    truth = sides.enlarged.astype(np.float32)
    for _ in track(range(steps), "published head", steps, "steps"):
        chosen = sides.train[torch.randint(len(sides.train), (config.batch_images,), generator=random).numpy()]
        x = maps.of(chosen).mT.reshape(len(chosen), -1, *grid)
        y = torch.from_numpy(truth[chosen])
        logits = F.interpolate(head(x), y.shape[-2:], mode="bilinear", align_corners=False)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    norm, last = head[0], head[1]
    assert isinstance(norm, torch.nn.BatchNorm2d) and isinstance(last, torch.nn.Conv2d)
    assert norm.running_mean is not None and norm.running_var is not None and last.bias is not None
    with torch.no_grad():
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()  # [C]
        weight = last.weight[:, :, 0, 0].T  # [C, K]
        found = LinearHead(None, scale[:, None] * weight, last.bias + (norm.bias - norm.running_mean * scale) @ weight)
    yield found, f"DINOv2's recipe, {steps} steps"
