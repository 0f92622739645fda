"""The keys of `decode`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError


@dataclass
class DecodeConfig:
    """How frames are picked from videos and sequences."""

    sampling: Literal["fps", "every", "keyframes"] = option(
        "fps: at even times; every: each n-th frame; keyframes: only frames that decode alone, at most `fps` of them.",
        "fps",
    )
    fps: float = option(
        "Frames per second, for sampling=fps and as the upper limit of sampling=keyframes.", 1.0, above=0
    )
    every_frames: int = option("Take each n-th frame, for sampling=every.", 30, low=1)
    sequence_every_frames: int = option("Take each n-th image of a folder of consecutive frames.", 1, low=1)
    backend: Literal["pyav", "torchcodec"] = option("Library that decodes videos.", "pyav")
    device: Literal["cpu", "cuda"] = option("Where to decode; cuda needs backend=torchcodec.", "cpu")

    def check(self) -> None:
        if self.device == "cuda" and self.backend != "torchcodec":
            raise UserError(f"decode.device=cuda needs decode.backend=torchcodec; the backend is {self.backend}.")
        if self.sampling == "keyframes" and self.backend != "pyav":
            raise UserError(f"decode.sampling=keyframes needs decode.backend=pyav; the backend is {self.backend}.")
