"""The photometric part of the augmentation in batches, on the device that trains: `augment.where=gpu`.

What was drawn for every crop is written down as a list of rows by operation, where the crops are cut. So the device
gets two small tensors more with a batch, does each operation on just the crops that have it, and nobody waits for it.
The values stay floats from the first operation to the last; the CPU path rounds to bytes after each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pretrain.data.augment.config import AugmentConfig
from pretrain.data.augment.params import BRIGHTNESS, CONTRAST, HUE, SATURATION, AugmentParams

_GRAY = (0.299, 0.587, 0.114)  # weights of ITU-R 601, as Pillow's and OpenCV's grayscale
_OPERATIONS = (BRIGHTNESS, CONTRAST, SATURATION, HUE)


@dataclass(frozen=True)
class PhotometricPlan:
    """What happens to a batch of crops: first the four places of the jitter, each with its four operations, then
    grayscale, blur and solarization."""

    rows: Tensor  # int64 [R]: the crops of one operation after another
    values: Tensor  # fp32 [R]: factor, hue shift in turns, sigma in pixels; 0 where an operation has none
    counts: tuple[int, ...]  # [19], rows of each operation
    blur_kernel_px: int
    solarize_threshold: int

    def pin_memory(self) -> PhotometricPlan:
        return replace(self, rows=self.rows.pin_memory(), values=self.values.pin_memory())


def plan_of(params: Sequence[AugmentParams], crops: slice, config: AugmentConfig) -> PhotometricPlan:
    """The plan of some crops of every image, crop-major: the row of crop c of image b is c · images + b."""

    def of_all(name: str) -> np.ndarray:
        stacked = np.stack([getattr(one, name)[crops] for one in params], axis=1)  # [crops, B, …]
        return stacked.reshape(-1, *stacked.shape[2:])

    jitter, order, factors, sigma = (of_all(name) for name in ("jitter", "jitter_order", "factors", "blur_sigma_px"))
    factors[:, HUE] = np.trunc(factors[:, HUE] * 255) / 256  # the steps of Pillow's and the CPU path's color circle
    rows, values = [], []
    for place in range(4):
        for operation in _OPERATIONS:
            chosen = np.flatnonzero(jitter & (order[:, place] == operation))
            rows.append(chosen)
            values.append(factors[chosen, operation])
    for chosen in (np.flatnonzero(of_all("grayscale")), np.flatnonzero(sigma > 0), np.flatnonzero(of_all("solarize"))):
        rows.append(chosen)
        values.append(sigma[chosen])
    return PhotometricPlan(
        torch.from_numpy(np.concatenate(rows)),
        torch.from_numpy(np.concatenate(values)).float(),
        tuple(len(chosen) for chosen in rows),
        config.blur_kernel_px,
        config.solarize_threshold,
    )


def colored(crops: Tensor, plan: PhotometricPlan) -> Tensor:
    """The plan applied to crops [n, 3, h, w] of bytes, on their device: bytes again."""
    x = crops.float()
    device = x.device
    all_rows = plan.rows.to(device, non_blocking=True).split(plan.counts)  # type: ignore[no-untyped-call]
    all_values = plan.values.to(device, non_blocking=True).split(plan.counts)  # type: ignore[no-untyped-call]
    *jitter, gray, blur, solarize = zip(all_rows, all_values, strict=True)
    for number, (rows, values) in enumerate(jitter):
        if len(rows):
            changed = _jitter(x.index_select(0, rows), _OPERATIONS[number % 4], values[:, None, None, None])
            x.index_copy_(0, rows, changed)
    if len(gray[0]):
        x.index_copy_(0, gray[0], _luma(x.index_select(0, gray[0])).expand(-1, 3, -1, -1))
    if len(blur[0]):
        x.index_copy_(0, blur[0], _blurred(x.index_select(0, blur[0]), blur[1], plan.blur_kernel_px))
    if len(solarize[0]):
        y = x.index_select(0, solarize[0]).round()
        x.index_copy_(0, solarize[0], torch.where(y < plan.solarize_threshold, y, 255 - y))
    return x.round_().to(torch.uint8)


def _jitter(x: Tensor, operation: int, factor: Tensor) -> Tensor:
    """One operation on crops [b, 3, h, w], 0…255, with a factor each, [b, 1, 1, 1]."""
    if operation == HUE:
        return _shift_hue(x, factor)
    if operation == BRIGHTNESS:
        return (factor * x).clamp_(0, 255)
    gray = _luma(x)  # [b, 1, h, w]
    if operation == CONTRAST:
        gray = gray.mean(dim=(1, 2, 3), keepdim=True)  # [b, 1, 1, 1]
    return (factor * x + (1 - factor) * gray).clamp_(0, 255)


def _luma(x: Tensor) -> Tensor:
    """Grayscale, [b, 3, h, w] → [b, 1, h, w]."""
    red, green, blue = x.split(1, dim=1)  # type: ignore[no-untyped-call]
    gray: Tensor = _GRAY[0] * red + _GRAY[1] * green + _GRAY[2] * blue
    return gray


def _shift_hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the color circle by `shift` turns, keeping HSV's saturation and value: [b, 3, h, w], 0…255."""
    value = x.amax(dim=1, keepdim=True)  # [b, 1, h, w]
    chroma = value - x.amin(dim=1, keepdim=True)
    red, green, blue = x.split(1, dim=1)  # type: ignore[no-untyped-call]
    safe = torch.where(chroma > 0, chroma, torch.ones_like(chroma))
    of_green, of_blue = 2 + (blue - red) / safe, 4 + (red - green) / safe
    hue = torch.where(value == red, (green - blue) / safe, torch.where(value == green, of_green, of_blue))
    hue = hue + 6 * shift  # [b, 1, h, w] in sixths of a turn
    k = torch.cat([hue + offset for offset in (5, 3, 1)], dim=1).remainder_(6)  # [b, 3, h, w]
    return value - chroma * torch.minimum(k, 4 - k).clamp_(0, 1)


def _blurred(x: Tensor, sigma: Tensor, kernel_px: int) -> Tensor:
    """Gaussian blur with a sigma per crop, mirrored at the border: [b, 3, h, w], [b].

    Shifted copies are added up: a GPU's convolution would round to ten bits by default.
    """
    reach = kernel_px // 2
    distance = torch.arange(-reach, reach + 1, device=x.device)  # [kernel]
    kernel = torch.exp(-0.5 * (distance / sigma[:, None]) ** 2)  # [b, kernel]
    kernel = (kernel / kernel.sum(dim=1, keepdim=True))[:, :, None, None, None]  # [b, kernel, 1, 1, 1]
    for dim, pad in ((3, (reach, reach, 0, 0)), (2, (0, 0, reach, reach))):
        padded = F.pad(x, pad, mode="reflect")
        blurred = torch.zeros_like(x)
        for tap in range(kernel_px):
            blurred.addcmul_(padded.narrow(dim, tap, x.shape[dim]), kernel[:, tap])
        x = blurred
    return x
