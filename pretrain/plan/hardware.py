"""GPUs: peak of dense half-precision matrix products, and memory, as their makers publish them."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.errors import UserError
from panendofm.runtime.names import hint

# Share of the peak that the DINOv2 authors' training reached: 70 images/s per A100 for ViT-L/14, at 1.37 TFLOP each.
REFERENCE_EFFICIENCY = 0.31


@dataclass(frozen=True)
class Gpu:
    name: str
    tflops: float
    memory_gb: float
    source: str
    link_gb_per_second: float = 0.0  # to the others of its node, in each direction; 0: PCIe alone


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100-32", 125, 32, "NVIDIA V100 datasheet: SXM2, fp16", 150),
        Gpu("a100-40", 312, 40, "NVIDIA A100 datasheet: SXM4, bf16 without sparsity", 300),
        Gpu("a100-80", 312, 80, "NVIDIA A100 datasheet: SXM4, bf16 without sparsity", 300),
        Gpu("h100-80", 989, 80, "NVIDIA H100 datasheet: SXM5, bf16 without sparsity", 450),
        Gpu("h200-141", 989, 141, "NVIDIA H200 datasheet: SXM5, bf16 without sparsity", 450),
        Gpu("l40s-48", 362, 48, "NVIDIA L40S datasheet: bf16 without sparsity"),
    )
}


def gpu_named(name: str) -> Gpu:
    if name not in GPUS:
        raise UserError(f"--gpu {name}: the table has no such GPU; {hint(name, GPUS)}")
    return GPUS[name]


@dataclass(frozen=True)
class Network:
    """How fast ranks reach one another, in one direction, after what rings usually lose."""

    name: str
    node_gb_per_second: float  # of a GPU, within its node
    between_gb_per_second: float  # of a node, to the others


_PCIE_GB_PER_SECOND = 32.0  # fourth generation, 16 lanes
# Share of a link's rate that NCCL's rings reach for tensors of some megabytes; a rule of thumb, not measured here.
_RING_EFFICIENCY = 0.75
# Gbit/s of a node, whatever the number of its adapters.
NETWORKS = {"ib-200": 200.0, "ib-400": 400.0, "eth-100": 100.0}


def network_named(name: str, gpu: Gpu) -> Network:
    if name not in NETWORKS:
        raise UserError(f"--network {name}: the table has no such network; there are: {', '.join(NETWORKS)}.")
    within = (gpu.link_gb_per_second or _PCIE_GB_PER_SECOND) * _RING_EFFICIENCY
    return Network(name, within, NETWORKS[name] / 8 * _RING_EFFICIENCY)
