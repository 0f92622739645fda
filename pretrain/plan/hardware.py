"""GPUs: peak of dense half-precision matrix products, and memory, as their makers publish them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from panendofm.runtime.errors import UserError

# Share of the peak that the DINOv2 authors' training reached: 70 images/s per A100 for ViT-L/14, at 1.37 TFLOP each.
REFERENCE_EFFICIENCY = 0.31


@dataclass(frozen=True)
class Gpu:
    name: str
    tflops: float
    memory_gb: float
    source: str


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100-32", 125, 32, "NVIDIA V100 datasheet: SXM2, fp16"),
        Gpu("a100-40", 312, 40, "NVIDIA A100 datasheet: SXM4, bf16 without sparsity"),
        Gpu("a100-80", 312, 80, "NVIDIA A100 datasheet: SXM4, bf16 without sparsity"),
        Gpu("h100-80", 989, 80, "NVIDIA H100 datasheet: SXM5, bf16 without sparsity"),
        Gpu("h200-141", 989, 141, "NVIDIA H200 datasheet: SXM5, bf16 without sparsity"),
        Gpu("l40s-48", 362, 48, "NVIDIA L40S datasheet: bf16 without sparsity"),
    )
}


def gpu_named(name: str) -> Gpu:
    if name not in GPUS:
        match = difflib.get_close_matches(name, GPUS, n=1)
        hint = f"did you mean '{match[0]}'?" if match else f"there are: {', '.join(GPUS)}."
        raise UserError(f"--gpu {name}: the table has no such GPU; {hint}")
    return GPUS[name]
