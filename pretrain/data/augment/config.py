"""Parameters of the augmentation: the one set that both implementations follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError

# Probability of the blur on the first global, the second global and the local crops. The reference's code applies it
# with the inverted probability of what its text says; the public checkpoints were trained with the inverted one.
BLUR_PROBABILITIES = {"as_released": (0.0, 0.9, 0.5), "as_documented": (1.0, 0.1, 0.5)}


@dataclass
class AugmentConfig:
    """The defaults are the reference's ViT-L/14 recipe."""

    where: Literal["cpu", "gpu"] = option(
        "Where jitter, grayscale, blur and solarization happen: cpu: in the loader's workers, gpu: in batches on the "
        "device that trains. Same random draws; pixels differ by rounding.",
        "cpu",
    )
    global_px: int = option("Side of a global crop.", 224, low=1)
    global_scale_min: float = option("Smallest share of the image's area in a global crop.", 0.32, above=0, high=1)
    global_scale_max: float = option("Largest share of the image's area in a global crop.", 1.0, above=0, high=1)
    local_crops: int = option("Local crops per image.", 8, low=0)
    local_px: int = option("Side of a local crop.", 98, low=1)
    local_scale_min: float = option("Smallest share of the image's area in a local crop.", 0.05, above=0, high=1)
    local_scale_max: float = option("Largest share of the image's area in a local crop.", 0.32, above=0, high=1)
    aspect_min: float = option("Narrowest crop, width over height.", 3 / 4, above=0)
    aspect_max: float = option("Widest crop, width over height.", 4 / 3, above=0)
    horizontal_flip_probability: float = option("Probability of a left-right flip.", 0.5, low=0, high=1)
    vertical_flip_probability: float = option("Probability of an upside-down flip.", 0.0, low=0, high=1)
    quarter_turns: bool = option("Turn each crop by 0, 90, 180 or 270 degrees.", False)
    jitter_probability: float = option("Probability of the color jitter.", 0.8, low=0, high=1)
    brightness: float = option("Brightness factor lies within 1 ± this.", 0.4, low=0)
    contrast: float = option("Contrast factor lies within 1 ± this.", 0.4, low=0)
    saturation: float = option("Saturation factor lies within 1 ± this.", 0.2, low=0)
    hue: float = option("Hue shift lies within ± this, in turns of the color circle.", 0.1, low=0, high=0.5)
    grayscale_probability: float = option("Probability that a crop loses its color.", 0.2, low=0, high=1)
    blur: Literal["as_released", "as_documented"] = option(
        "Blur probabilities: as_released 0 / 0.9 / 0.5 for global 1 / global 2 / local, as_documented 1 / 0.1 / 0.5.",
        "as_released",
    )
    blur_kernel_px: int = option("Width of the blur kernel, an odd number.", 9, low=1)
    blur_sigma_min_px: float = option("Smallest sigma of the blur.", 0.1, above=0)
    blur_sigma_max_px: float = option("Largest sigma of the blur.", 2.0, above=0)
    solarize_probability: float = option(
        "Probability that bright pixels of global crop 2 are inverted.", 0.2, low=0, high=1, was="solarise_probability"
    )
    solarize_threshold: int = option(
        "Pixels from this value on are inverted.", 128, low=0, high=256, was="solarise_threshold"
    )
    inside_field_of_view: bool = option("Keep crops within the endoscope's field of view.", False)
    field_of_view_share_min: float = option(
        "Smallest share of a crop that lies in the field of view, where that is possible.", 0.97, low=0, high=1
    )

    @property
    def crops(self) -> int:
        return 2 + self.local_crops

    def check(self) -> None:
        for name in ("global_scale", "local_scale", "aspect", "blur_sigma"):
            unit = "_px" if name == "blur_sigma" else ""
            low, high = getattr(self, f"{name}_min{unit}"), getattr(self, f"{name}_max{unit}")
            if low > high:
                raise UserError(f"augment.{name}_min{unit}={low} must not be above augment.{name}_max{unit}={high}.")
        if self.blur_kernel_px % 2 == 0:
            raise UserError(f"augment.blur_kernel_px={self.blur_kernel_px} must be odd.")
