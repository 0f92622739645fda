"""Sizes of the vision transformer, and the names they go by."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from panendofm.records.documents import parse_document
from panendofm.runtime.config import check_config, option
from panendofm.runtime.errors import UserError

# sdpa: one torch scaled_dot_product_attention call per group; runs everywhere.
# xformers: one block-diagonal call (CUDA). varlen: one torch variable-length flash-attention call (CUDA, half
# precision).
Backend = Literal["sdpa", "xformers", "varlen"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
# auto: varlen where it runs, else sdpa.
AttentionChoice = Literal["auto", "sdpa", "xformers", "varlen"]


@dataclass(frozen=True)
class Execution:
    """How a backbone runs. It changes speed and memory, never the result."""

    attention: AttentionChoice = option(
        "Attention backend. auto: torch's variable-length kernel for crops of several sizes where it runs (CUDA, half "
        "precision), else sdpa. xformers needs its package.",
        "auto",
    )
    checkpoint_blocks: bool = option(
        "Recompute each block in the backward pass instead of keeping it in memory.", False
    )
    compile: bool = option(
        "Compile the blocks with torch.compile: one graph for all of them, without breaks.", False, was="compile_blocks"
    )


@dataclass(frozen=True)
class ViTConfig:
    """What a backbone computes. Two backbones with equal configs and weights give equal features."""

    width: int = option("Length of a token.", 1024, low=1, high=65536)
    depth: int = option("Number of transformer blocks.", 24, low=1, high=1000)
    heads: int = option("Attention heads per block; they share the width.", 16, low=1, high=65536)
    patch_px: int = option("Side of a patch in pixels.", 14, low=1, high=1024)
    image_px: int = option("Side of the square image whose patch grid pos_embed is stored for.", 518, low=1, high=16384)
    mlp_ratio: float = option("Hidden width of the feed-forward layer over the token width.", 4.0, above=0, high=64)
    ffn: Literal["mlp", "swiglu"] = option("Kind of feed-forward layer.", "mlp")
    registers: int = option("Register tokens between the cls token and the patches.", 0, low=0, high=1024)
    position_offset: float = option("Added to the grid's sides when pos_embed is interpolated; 0 by size.", 0.1)
    position_antialias: bool = option("Antialias when pos_embed is interpolated to a smaller grid.", False)
    layerscale_init: float = option("First value of the LayerScale factors.", 1e-5, low=0)
    drop_path: float = option("Share of the samples that skip a residual branch while training.", 0.0, low=0, below=1)

    def __post_init__(self) -> None:
        check_config(self, "vit")
        if self.width % self.heads:
            raise UserError(f"vit: the width {self.width} is not a multiple of the {self.heads} heads; change one.")
        if self.image_px % self.patch_px:
            raise UserError(
                f"vit: image_px={self.image_px} is not a multiple of patch_px={self.patch_px}; change one of them."
            )

    @property
    def grid(self) -> int:
        """Patches along one side of the stored position grid."""
        return self.image_px // self.patch_px

    @property
    def hidden_width(self) -> int:
        """Hidden width of the feed-forward layer."""
        hidden = int(self.width * self.mlp_ratio)
        # SwiGLU has three matrices instead of two: two thirds of the width cost the same; rounded up to eights.
        return hidden if self.ffn == "mlp" else (int(hidden * 2 / 3) + 7) // 8 * 8

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ViTConfig:
        unknown = sorted(set(values) - {item.name for item in fields(cls)})
        if unknown:
            raise UserError(f"vit: unknown key '{unknown[0]}' in the stored backbone config.")
        return parse_document(cls, values, "the stored backbone config", "sizes of a backbone")


# width, depth, heads, ffn
_SIZES: dict[str, tuple[int, int, int, Literal["mlp", "swiglu"]]] = {
    "test": (32, 3, 4, "mlp"),
    "tiny": (192, 12, 3, "mlp"),
    "small": (384, 12, 6, "mlp"),
    "base": (768, 12, 12, "mlp"),
    "large": (1024, 24, 16, "mlp"),
    "giant": (1536, 40, 24, "swiglu"),
}
_NAME = re.compile(rf"vit_({'|'.join(_SIZES)})_patch(14|16)(_reg4)?")


def vit_names() -> list[str]:
    """Every name that `vit_config` knows, `vit_test` (= vit_test_patch14 built for 56 pixels) first."""
    suffixes = ("_patch14", "_patch14_reg4", "_patch16", "_patch16_reg4")
    return ["vit_test", *(f"vit_{size}{suffix}" for size in _SIZES for suffix in suffixes)]


def vit_config(name: str, **changes: Any) -> ViTConfig:
    """The config of a name such as `vit_large_patch14` or `vit_small_patch14_reg4`, with some fields changed."""
    match = _NAME.fullmatch("vit_test_patch14" if name == "vit_test" else name)
    if match is None:
        raise UserError(f"unknown backbone '{name}'; there are: {', '.join(vit_names())}.")
    size, patch, registers = match.groups()
    width, depth, heads, ffn = _SIZES[size]
    # The released patch-14 weights hold a 518-pixel grid; the test size is built for the golden files' 56 pixels.
    image_px = 4 * int(patch) if size == "test" else 518 if patch == "14" else 224
    config = ViTConfig(width=width, depth=depth, heads=heads, patch_px=int(patch), image_px=image_px, ffn=ffn)
    if registers:  # the released register models interpolate positions by size and antialiased
        config = replace(config, registers=4, position_offset=0.0, position_antialias=True)
    return replace(config, **changes)


def architecture_name(config: ViTConfig) -> str:
    """The shortest name for a config: a known one where the sizes match, else one that spells the sizes."""
    for name in vit_names():
        known = vit_config(name)
        if replace(known, drop_path=config.drop_path, layerscale_init=config.layerscale_init) == config:
            return name
    registers = f"_reg{config.registers}" if config.registers else ""
    ffn = "_swiglu" if config.ffn == "swiglu" else ""
    sizes = f"w{config.width}_d{config.depth}_h{config.heads}_patch{config.patch_px}_{config.image_px}px"
    return f"vit_{sizes}{ffn}{registers}"
