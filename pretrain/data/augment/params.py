"""The random part of the augmentation: which crops, and what happens to each.

They are a pure function of (config, image size, seed, epoch, key): independent of workers, ranks and restarts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pretrain.data.augment.config import BLUR_PROBABILITIES, AugmentConfig
from pretrain.data.augment.field_of_view import FieldOfView
from pretrain.randomness import numpy_generator

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
_TRIES = 10


@dataclass(frozen=True)
class AugmentParams:
    """What happens to the n = 2 + L crops of one image, in this order of steps. The first two crops are global.

    Turns and flips are one symmetry of the square: first transpose, then flip.
    """

    boxes: Ints  # [n, 4] left, top, width, height in pixels of the image
    transpose: Bools  # [n]
    flip_horizontal: Bools  # [n]
    flip_vertical: Bools  # [n]
    jitter: Bools  # [n]
    jitter_order: Ints  # [n, 4] of BRIGHTNESS, CONTRAST, SATURATION, HUE
    factors: Floats  # [n, 4] brightness, contrast, saturation factors and hue shift
    grayscale: Bools  # [n]
    blur_sigma_px: Floats  # [n], 0 where the crop is not blurred
    solarize: Bools  # [n]

    def with_crop(self, number: int, other: AugmentParams) -> AugmentParams:
        """These parameters, with those of another image for one crop."""
        merged = {}
        for item in fields(self):
            values = getattr(self, item.name).copy()
            values[number] = getattr(other, item.name)[number]
            merged[item.name] = values
        return AugmentParams(**merged)


def draw_params(
    config: AugmentConfig,
    width: int,
    height: int,
    seed: int,
    epoch: int,
    key: int | str,
    field_of_view: FieldOfView | None = None,
) -> AugmentParams:
    """The parameters of the image `key` in an epoch. `key` is any stable name or position of the sample."""
    n = config.crops
    rng = numpy_generator(seed, "augment", epoch, key)
    boxes = _draw_boxes(config, width, height, rng.random((n, _TRIES, 4)), field_of_view)
    u = rng.random((n, 12))
    turns = (u[:, 0] * 4).astype(np.int64) if config.quarter_turns else np.zeros(n, dtype=np.int64)
    # np.rot90 by `turns` is a transpose for odd turns, then flips.
    flip_horizontal = (u[:, 1] < config.horizontal_flip_probability) ^ (turns >= 2)
    flip_vertical = (u[:, 2] < config.vertical_flip_probability) ^ ((turns == 1) | (turns == 2))
    spread = np.array([config.brightness, config.contrast, config.saturation, config.hue])
    middle = np.array([1.0, 1.0, 1.0, 0.0])
    low, high = middle - spread, middle + spread
    low[:HUE] = low[:HUE].clip(min=0)
    first, second, local = BLUR_PROBABILITIES[config.blur]
    blur_probability = np.array([first, second, *[local] * config.local_crops])
    sigma = config.blur_sigma_min_px + (config.blur_sigma_max_px - config.blur_sigma_min_px) * u[:, 9]
    solarize_probability = np.zeros(n)
    solarize_probability[1] = config.solarize_probability
    return AugmentParams(
        boxes=boxes,
        transpose=turns % 2 == 1,
        flip_horizontal=flip_horizontal,
        flip_vertical=flip_vertical,
        jitter=u[:, 3] < config.jitter_probability,
        jitter_order=rng.permuted(np.tile(np.arange(4), (n, 1)), axis=1),
        factors=low + (high - low) * u[:, 4:8],
        grayscale=u[:, 8] < config.grayscale_probability,
        blur_sigma_px=np.where(u[:, 10] < blur_probability, sigma, 0.0),
        solarize=u[:, 11] < solarize_probability,
    )


def _draw_boxes(config: AugmentConfig, width: int, height: int, u: Floats, field: FieldOfView | None) -> Ints:
    """Boxes [n, 4] of random area and aspect: of ten tries (u: [n, 10, 4]) the first that fits into the image.

    With a field of view, areas are shares of its bounding box, and a try also has to lie in the field far enough; when
    none does, the one that lies in it most is taken.
    """
    left, top = (field.left, field.top) if field is not None else (0, 0)
    if field is not None:
        width, height = field.width, field.height
    scale_min = np.array([config.global_scale_min] * 2 + [config.local_scale_min] * config.local_crops)[:, None]
    scale_max = np.array([config.global_scale_max] * 2 + [config.local_scale_max] * config.local_crops)[:, None]
    area = width * height * (scale_min + (scale_max - scale_min) * u[..., 0])  # [n, tries]
    log_min, log_max = math.log(config.aspect_min), math.log(config.aspect_max)
    aspect = np.exp(log_min + (log_max - log_min) * u[..., 1])
    w = np.rint(np.sqrt(area * aspect)).astype(np.int64)
    h = np.rint(np.sqrt(area / aspect)).astype(np.int64)
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    x = left + np.floor(u[..., 2] * (width - w + 1)).astype(np.int64)
    y = top + np.floor(u[..., 3] * (height - h + 1)).astype(np.int64)
    tries = np.stack([x, y, w, h], axis=-1)  # [n, tries, 4]
    chosen = fits.argmax(axis=1)
    if field is not None:
        share = np.where(fits, field.share_of(np.where(fits[..., None], tries, 0)), -1.0)  # [n, tries]
        enough = share >= config.field_of_view_share_min
        chosen = np.where(enough.any(axis=1), enough.argmax(axis=1), share.argmax(axis=1))
    boxes: Ints = tries[np.arange(len(tries)), chosen]
    boxes[~fits.any(axis=1)] = _central_box(config, left, top, width, height)
    return boxes


def _central_box(config: AugmentConfig, left: int, top: int, width: int, height: int) -> tuple[int, int, int, int]:
    """The largest central box of an allowed aspect: for images so narrow that no try fits."""
    w, h = width, height
    if width / height < config.aspect_min:
        h = round(w / config.aspect_min)
    elif width / height > config.aspect_max:
        w = round(h * config.aspect_max)
    return left + (width - w) // 2, top + (height - h) // 2, w, h
