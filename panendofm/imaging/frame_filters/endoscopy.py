"""Is this an endoscope's image at all? Masks, screens, photographed paper and landscapes are told by their colors.

Living tissue is lit by one lamp: its colors shade into one another and hardly any two neighboring pixels are equal.
What is printed or drawn has few colors and flat areas; what grows is green beside a blue sky.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.channels import highest_channel
from panendofm.imaging.frame_filters.shrink import shrink

_MEASURED_PX = 128


@dataclass(frozen=True)
class Colors:
    """What was measured of one image, as shares of its pixels."""

    flat: float  # as bright and of the same color as all their neighbors
    four: float  # of the four commonest colors, in steps of eight
    green: float  # purely green
    sky: float  # bluish
    red: float  # redder than anything else


def measure_colors(rgb: NDArray[np.uint8], inside: NDArray[np.uint8]) -> Colors:
    """Measure the pixels of rgb [H, W, 3] where inside [H, W] is not 0."""
    scale = _MEASURED_PX / max(inside.shape)
    size = (max(8, round(inside.shape[1] * scale)), max(8, round(inside.shape[0] * scale)))
    small = shrink(rgb, size)
    mask = cv2.resize(inside, size, interpolation=cv2.INTER_NEAREST)
    core = cv2.erode(mask, np.ones((5, 5), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0) > 0
    if not core.any():
        return Colors(0, 0, 0, 0, 0)
    pixels = small[core].astype(np.int32)  # [N, 3]
    _, counts = np.unique((pixels // 8) @ np.array([1, 32, 1024]), return_counts=True)
    lit = pixels.max(axis=1) > 40
    red, green, blue = pixels[lit].T if lit.any() else pixels.T
    return Colors(
        flat=_share(highest_channel(cv2.morphologyEx(small, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)))[core] <= 2),
        four=float(np.sort(counts)[-4:].sum() / len(pixels)),
        green=_share((green > 1.1 * red) & (green > 1.3 * blue)),
        sky=_share((blue > 1.1 * red) & (blue >= green)),
        red=_share((red > 1.15 * green) & (red > 1.15 * blue)),
    )


def is_endoscopy(colors: Colors) -> bool:
    """Whether the colors may be an endoscope's."""
    few_colors = colors.flat >= 0.2 or (colors.flat >= 0.1 and colors.four >= 0.33)
    outdoors = colors.green >= 0.15 and colors.sky >= 0.1 and colors.red < 0.1
    return not (few_colors or outdoors)


def _share(chosen: NDArray[np.bool_]) -> float:
    return float(chosen.mean())
