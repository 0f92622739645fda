"""The fast CPU path: a JPEG in, small 8-bit crops out.

The image is decoded once, at half size or less when every crop stays sharp. Each crop is cut out first, and all else
runs on its few pixels: torch's 8-bit antialiased bicubic resize (Pillow's algorithm, vectorized), then OpenCV. The
crops stay 8-bit; the batch is normalized on the device that trains.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg
import torch
import torch.nn.functional as F

from panendofm.runtime.errors import UserError
from pretrain.data.augment.config import AugmentConfig
from pretrain.data.augment.field_of_view import find_field_of_view
from pretrain.data.augment.params import BRIGHTNESS, CONTRAST, HUE, SATURATION, AugmentParams, draw_params

Image = npt.NDArray[np.uint8]  # [H, W, 3] RGB
Crops = tuple[list[Image], list[Image]]

_GRAY = np.array([0.299, 0.587, 0.114])  # weights of ITU-R 601, as Pillow's and OpenCV's grayscale
# A field of view may leave out the border: then crops are smaller than the frame suggests.
_FIELD_OF_VIEW_SHARE = 0.5


def augment_jpeg(data: bytes, config: AugmentConfig, seed: int, epoch: int, key: int | str) -> Crops:
    """The (global crops, local crops) of an encoded image; a pure function of its arguments."""
    return crops_of(*_decoded_and_drawn(data, config, seed, epoch, key), config)


def prepare_jpeg(
    data: bytes, config: AugmentConfig, seed: int, epoch: int, key: int | str
) -> tuple[Crops, AugmentParams]:
    """What a worker does with an image: all of the above, or with `augment.where=gpu` all but the photometric part.

    With the crops comes what was drawn for them.
    """
    image, params = _decoded_and_drawn(data, config, seed, epoch, key)
    return (cut if config.where == "gpu" else crops_of)(image, params, config), params


def crops_of(image: Image, params: AugmentParams, config: AugmentConfig) -> Crops:
    """Apply drawn parameters: 2 crops [global_px, global_px, 3] and L crops [local_px, local_px, 3]."""
    crops = [_colored(crop, params, i, config) for i, crop in enumerate(_cut_all(image, params, config))]
    return crops[:2], crops[2:]


def cut(image: Image, params: AugmentParams, config: AugmentConfig) -> Crops:
    """Boxes, resizing, turns and flips only."""
    crops = _cut_all(image, params, config)
    return crops[:2], crops[2:]


def _cut_all(image: Image, params: AugmentParams, config: AugmentConfig) -> list[Image]:
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None]  # [1, 3, H, W], a view
    sides = [config.global_px] * 2 + [config.local_px] * config.local_crops
    return [_turned(_resized(pixels, params, i, side), params, i) for i, side in enumerate(sides)]


def _decoded_and_drawn(
    data: bytes, config: AugmentConfig, seed: int, epoch: int, key: int | str
) -> tuple[Image, AugmentParams]:
    width, height = _size_of(data, key)
    image = _decode(data, config, width, height, key)
    field = find_field_of_view(image) if config.inside_field_of_view else None
    return image, draw_params(config, image.shape[1], image.shape[0], seed, epoch, key, field)


def _size_of(data: bytes, key: int | str) -> tuple[int, int]:
    try:
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
    except ValueError as error:
        raise UserError(f"sample {key}: not a readable JPEG image ({error}); remove it from the shards.") from error
    return width, height


def _decode(data: bytes, config: AugmentConfig, width: int, height: int, key: int | str) -> Image:
    """Decoded pixels, scaled down by the decoder as far as no crop would have to be enlarged for it."""
    factor = spare_resolution(config, width, height)
    smallest = (math.ceil(height / factor), math.ceil(width / factor)) if factor >= 2 else (height, width)
    try:
        image: Image = simplejpeg.decode_jpeg(
            data, colorspace="RGB", min_height=smallest[0], min_width=smallest[1], min_factor=2
        )
    except ValueError as error:
        raise UserError(f"sample {key}: not a readable JPEG image ({error}); remove it from the shards.") from error
    return image


def spare_resolution(config: AugmentConfig, width: int, height: int) -> float:
    """By how much the image can shrink until the smallest possible crop has just the pixels that it is resized to."""
    area = width * height * (_FIELD_OF_VIEW_SHARE if config.inside_field_of_view else 1.0)
    narrowest = min(config.aspect_min, 1 / config.aspect_max)
    kinds = [(config.global_scale_min, config.global_px)]
    if config.local_crops:
        kinds.append((config.local_scale_min, config.local_px))
    return min(math.sqrt(area * scale * narrowest) / side for scale, side in kinds)


def _resized(pixels: torch.Tensor, params: AugmentParams, i: int, side: int) -> Image:
    x, y, w, h = params.boxes[i].tolist()
    crop = pixels[..., y : y + h, x : x + w].contiguous(memory_format=torch.channels_last)  # [1, 3, h, w]
    crop = F.interpolate(crop, size=(side, side), mode="bicubic", antialias=True)  # [1, 3, side, side]
    result: Image = crop[0].permute(1, 2, 0).numpy()  # [side, side, 3]
    return result


def _turned(crop: Image, params: AugmentParams, i: int) -> Image:
    if params.transpose[i]:
        crop = cv2.transpose(crop)
    if params.flip_horizontal[i]:
        crop = cv2.flip(crop, 1)
    if params.flip_vertical[i]:
        crop = cv2.flip(crop, 0)
    return crop


def _colored(crop: Image, params: AugmentParams, i: int, config: AugmentConfig) -> Image:
    if params.jitter[i]:
        factors = params.factors[i].tolist()
        for operation in params.jitter_order[i].tolist():
            crop = _jitter(crop, operation, factors[operation])
    if params.grayscale[i]:
        crop = cv2.cvtColor(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    if params.blur_sigma_px[i] > 0:
        kernel = cv2.getGaussianKernel(config.blur_kernel_px, params.blur_sigma_px[i], cv2.CV_32F)
        crop = cv2.sepFilter2D(crop, -1, kernel, kernel, borderType=cv2.BORDER_REFLECT_101)
    if params.solarize[i]:
        crop = np.where(crop < config.solarize_threshold, crop, 255 - crop)
    return crop


def _jitter(crop: Image, operation: int, factor: float) -> Image:
    """One of the four jitter operations. The linear ones are a matrix per pixel, clipped to 0…255."""
    if operation == HUE:
        hsv = cv2.cvtColor(crop, cv2.COLOR_RGB2HSV_FULL)
        hsv[..., 0] += np.uint8(int(factor * 255) % 256)  # wraps around the color circle
        shifted: Image = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB_FULL)
        return shifted
    matrix = np.zeros((3, 4))
    matrix[:, :3] = factor * np.eye(3)
    if operation == CONTRAST:
        mean = round(cv2.mean(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY))[0])
        matrix[:, 3] = (1 - factor) * mean
    elif operation == SATURATION:
        matrix[:, :3] += (1 - factor) * _GRAY
    else:
        assert operation == BRIGHTNESS
    changed: Image = cv2.transform(crop, matrix)
    return changed
