"""The batched path: the same parameters applied to tensors, on the GPU for users, on the CPU in the tests.

Cutting out and resizing are two matrix products per crop: each output row is a weighted sum of the box's input rows,
and so for the columns. The weights are those of Pillow's antialiased bicubic resize.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from pretrain.data.augment.config import AugmentConfig
from pretrain.data.augment.params import BRIGHTNESS, CONTRAST, HUE, SATURATION, AugmentParams

_GRAY = (0.299, 0.587, 0.114)
_CUBIC_A = -0.5  # Pillow's bicubic kernel


def augment_batch(
    images: Sequence[Tensor], params: Sequence[AugmentParams], config: AugmentConfig
) -> tuple[Tensor, Tensor]:
    """Crop-major 8-bit crops [2B, 3, G, G] and [L·B, 3, l, l] of images [3, H, W] (bytes, sizes may differ)."""
    padded = _padded(images)  # [B, 3, H, W]
    global_crops = [_crop(padded, params, i, config.global_px, config) for i in range(2)]
    local_crops = [_crop(padded, params, i, config.local_px, config) for i in range(2, config.crops)]
    empty = padded.new_zeros(0, 3, config.local_px, config.local_px)
    return _as_bytes(torch.cat(global_crops)), _as_bytes(torch.cat(local_crops) if local_crops else empty)


def _padded(images: Sequence[Tensor]) -> Tensor:
    height, width = (max(image.shape[axis] for image in images) for axis in (1, 2))
    return torch.stack([F.pad(i.float(), (0, width - i.shape[2], 0, height - i.shape[1])) for i in images])


def _as_bytes(x: Tensor) -> Tensor:
    return x.round().to(torch.uint8)


def _crop(images: Tensor, params: Sequence[AugmentParams], i: int, side: int, config: AugmentConfig) -> Tensor:
    """Crop number i of every image: [B, 3, side, side], values 0…255."""
    boxes = np.stack([one.boxes[i] for one in params])  # [B, 4]
    x = resize_boxes(images, torch.from_numpy(boxes).to(images.device), side)
    x = _turned(x, params, i)
    x = _jittered(x, params, i)
    gray = _indices([bool(one.grayscale[i]) for one in params])
    if len(gray):
        x[gray] = _luma(x[gray]).expand(-1, 3, -1, -1)
    x = _blurred(x, np.array([one.blur_sigma_px[i] for one in params]), config.blur_kernel_px)
    inverted = _indices([bool(one.solarise[i]) for one in params])
    if len(inverted):
        y = x[inverted].round()
        x[inverted] = torch.where(y < config.solarise_threshold, y, 255 - y)
    return x


def resize_boxes(images: Tensor, boxes: Tensor, side: int) -> Tensor:
    """Boxes (left, top, width, height: [B, 4]) of images [B, 3, H, W] as [B, 3, side, side], antialiased bicubic."""
    across = _weights(boxes[:, 0], boxes[:, 2], images.shape[3], side)  # [B, side, W]
    down = _weights(boxes[:, 1], boxes[:, 3], images.shape[2], side)  # [B, side, H]
    narrow = (images @ across.transpose(1, 2)[:, None]).clamp_(0, 255)  # [B, 3, H, side]; bytes in between, too
    return (down[:, None] @ narrow).clamp_(0, 255)  # [B, 3, side, side]


def _weights(start: Tensor, length: Tensor, pixels: int, side: int) -> Tensor:
    """Weight of every input pixel in every output pixel along one axis: [B, side, pixels]. Rows sum to 1."""
    scale = (length / side)[:, None, None]  # [B, 1, 1]
    stretch = scale.clamp_min(1)  # antialiasing: the kernel widens when the box shrinks
    device = start.device
    centre = start[:, None, None] + (torch.arange(side, device=device)[None, :, None] + 0.5) * scale  # [B, side, 1]
    pixel = torch.arange(pixels, device=device)[None, None, :]  # [1, 1, pixels]
    weight = _cubic((pixel + 0.5 - centre) / stretch)
    inside = (pixel >= start[:, None, None]) & (pixel < (start + length)[:, None, None])
    weight = weight * inside  # pixels beyond the box do not count
    return weight / weight.sum(dim=2, keepdim=True)


def _cubic(x: Tensor) -> Tensor:
    x = x.abs()
    near = ((_CUBIC_A + 2) * x - (_CUBIC_A + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * _CUBIC_A
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _turned(x: Tensor, params: Sequence[AugmentParams], i: int) -> Tensor:
    for field in ("transpose", "flip_horizontal", "flip_vertical"):
        chosen = _indices([bool(getattr(one, field)[i]) for one in params])
        if len(chosen):
            y = x[chosen]
            x[chosen] = y.mT if field == "transpose" else y.flip(3 if field == "flip_horizontal" else 2)
    return x


def _jittered(x: Tensor, params: Sequence[AugmentParams], i: int) -> Tensor:
    """The four operations in each sample's own order; samples that have the same one next go through it together."""
    factors = torch.tensor(np.stack([one.factors[i] for one in params]), dtype=x.dtype)  # [B, 4]
    for place in range(4):
        for operation in (BRIGHTNESS, CONTRAST, SATURATION, HUE):
            chosen = _indices([bool(one.jitter[i]) and one.jitter_order[i, place] == operation for one in params])
            if len(chosen):
                factor = factors[chosen, operation].to(x.device)[:, None, None, None]  # [b, 1, 1, 1]
                x[chosen] = _jitter(x[chosen], operation, factor)
    return x


def _jitter(x: Tensor, operation: int, factor: Tensor) -> Tensor:
    if operation == HUE:
        return _shift_hue(x, factor)
    if operation == BRIGHTNESS:
        grey = torch.zeros_like(factor)  # [b, 1, 1, 1]
    elif operation == CONTRAST:
        grey = _luma(x).mean(dim=(1, 2, 3), keepdim=True)  # [b, 1, 1, 1]
    else:
        grey = _luma(x)  # [b, 1, h, w]
    return (factor * x + (1 - factor) * grey).clamp_(0, 255)


def _luma(x: Tensor) -> Tensor:
    """Grayscale, [b, 3, h, w] → [b, 1, h, w]."""
    return (x * torch.tensor(_GRAY, device=x.device)[:, None, None]).sum(dim=1, keepdim=True)


def _shift_hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the colour circle by `shift` turns, keeping HSV's saturation and value: [b, 3, h, w], 0…255."""
    value = x.amax(dim=1, keepdim=True)  # [b, 1, h, w]
    chroma = value - x.amin(dim=1, keepdim=True)
    r, g, b = x[:, :1], x[:, 1:2], x[:, 2:]
    safe = torch.where(chroma > 0, chroma, torch.ones_like(chroma))
    hue = torch.where(
        value == r, (g - b) / safe, torch.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe)
    )  # [b, 1, h, w] in sixths of a turn
    offset = torch.tensor([5.0, 3.0, 1.0], device=x.device)[:, None, None]  # of red, green, blue
    k = (offset + hue + 6 * shift) % 6  # [b, 3, h, w]
    return value - chroma * torch.minimum(k, 4 - k).clamp_(0, 1)


def _blurred(x: Tensor, sigmas: npt.NDArray[np.float64], kernel_px: int) -> Tensor:
    """Gaussian blur with a sigma per sample (0: none), mirrored at the border: one grouped convolution per axis."""
    chosen = _indices([bool(sigma > 0) for sigma in sigmas])
    if not len(chosen):
        return x
    sigma = torch.tensor(sigmas, dtype=x.dtype)[chosen].to(x.device)  # [b]
    reach = kernel_px // 2
    distance = torch.arange(-reach, reach + 1, device=x.device)  # [kernel]
    kernel = torch.exp(-0.5 * (distance / sigma[:, None]) ** 2)  # [b, kernel]
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).repeat_interleave(3, dim=0)  # [3b, kernel]
    y = F.pad(x[chosen], (reach, reach, reach, reach), mode="reflect").flatten(0, 1)[None]  # [1, 3b, h', w']
    y = F.conv2d(y, kernel[:, None, None, :], groups=len(kernel))
    y = F.conv2d(y, kernel[:, None, :, None], groups=len(kernel))
    x[chosen] = y.unflatten(1, (-1, 3))[0]  # type: ignore[no-untyped-call]
    return x


def _indices(chosen: Sequence[bool]) -> Tensor:
    return torch.tensor(chosen, dtype=torch.bool).nonzero().flatten()
