"""Speed of a full training step (fp32, CPU): ours against the plain way, and the share of the machine's matmul peak.

    python -m benchmarks.step [--rounds 4] [--only small|vit_s] [--threads 2]

The plain way computes the same losses with one pass per crop size, drop path that computes every branch and then
multiplies it by 0 or 1/(1 − p), and one head call per crop. Both take the same number of images, run alternately in one
process and include teacher, losses, backward, clipping, AdamW and EMA. The figure is the ratio of the medians. The peak
is a large fp32 matrix product, measured between the steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.figures import Figure, Size
from panendofm.backbone import Tokens, VisionTransformer, ViTConfig, vit_config
from panendofm.backbone.attention import pack
from pretrain.data.batch import Batch, make_batch
from pretrain.data.config import MaskConfig
from pretrain.data.loader import LoadedBatch
from pretrain.data.masking import masks_of_step
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.drop_path import DropPath
from pretrain.objective.prototype_loss import STUDENT_TEMPERATURE, LossTargets
from pretrain.optimizer.clipping import clip_per_submodule
from pretrain.optimizer.config import OptimizerConfig
from pretrain.optimizer.parameter_groups import build_optimizer, set_step_values
from pretrain.optimizer.step import Stepper
from pretrain.parallel.config import ShardingConfig
from pretrain.parallel.world import World, joined_world
from pretrain.schedules import StepValues
from pretrain.sharding import make_mesh, shard_objective

DROP_PATH = 0.3
LOCAL_CROPS = 8
VALUES = StepValues(lr=1e-4, last_layer_lr=1e-4, weight_decay=0.04, momentum=0.994, teacher_temperature=0.05)


def attention_flops(query: list[int], key: list[int], *_: object, **__: object) -> int:
    """Multiplications and additions of softmax(q·kᵀ)·v: query [B, heads, N, d]."""
    return 4 * query[0] * query[1] * query[2] * key[2] * query[3]


def attention_backward_flops(_: list[int], query: list[int], key: list[int], *__: object, **___: object) -> int:
    return 5 * attention_flops(query, key) // 2  # five matrix products for the forward's two


# torch's counter knows the CUDA kernels only.
ATTENTION_FLOPS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward_flops,
}


class PlainObjective(DinoObjective):
    """The same losses, computed crop size by crop size and crop by crop."""

    def student_tokens(
        self, batch: Batch, masks: Tensor | None, drop_path: list[Tensor] | None, student: str = ""
    ) -> tuple[Tokens, Tensor]:
        backbone = self.student["backbone"]
        assert isinstance(backbone, VisionTransformer)
        global_tokens = plain_pass(backbone, batch.global_crops, masks)
        return global_tokens, plain_pass(backbone, batch.local_crops, None).cls

    def _teacher_scores(self, cls: Tensor, patches: Tensor) -> tuple[Tensor, Tensor]:
        cls_scores = torch.cat([self.teacher["dino_head"](crop) for crop in cls.split(self.images)])
        return cls_scores, self.teacher["ibot_head"](patches)

    def _prototype_losses(
        self, cls: Tensor, patches: Tensor, parts: dict[str, LossTargets]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        scores = torch.cat([self.student["dino_head"](crop) for crop in cls.split(self.images)])
        patch_scores = self.student["ibot_head"](patches)
        global_scores, local_scores = scores[: 2 * self.images], scores[2 * self.images :]
        losses = {
            name: plain_cross_entropy(own, parts[name])
            for name, own in (("dino_global", global_scores), ("dino_local", local_scores), ("ibot", patch_scores))
        }
        return torch.stack(list(losses.values())).sum(), losses

    images = 0


def plain_cross_entropy(scores: Tensor, against: LossTargets) -> Tensor:
    targets = against.targets if against.target_of_row is None else against.targets[against.target_of_row]
    return -((targets * torch.log_softmax(scores / STUDENT_TEMPERATURE, dim=-1)).sum(-1) * against.weights).sum()


def plain_pass(backbone: VisionTransformer, images: Tensor, masks: Tensor | None) -> Tokens:
    embedded = backbone._embed(images, masks)  # [B, 1 + N, D]
    samples, tokens = embedded.shape[:2]
    packing = pack(((samples, tokens),), "sdpa", images.device)
    x = embedded.flatten(0, 1)
    for block in backbone.blocks:
        x = x + kept(samples, tokens) * block.ls1(block.attn(x, packing, block.norm1))
        x = x + kept(samples, tokens) * block.ls2(block.mlp(x, block.norm2))
    return backbone._tokens(x, [(samples, tokens)])[0]


def kept(samples: int, tokens: int) -> Tensor:
    """0 or 1 / (1 − p) for every sample, [B · tokens, 1]."""
    keep = torch.rand(samples, 1) >= DROP_PATH
    return (keep / (1 - DROP_PATH)).repeat_interleave(tokens, dim=0)


@dataclass(frozen=True)
class Case:
    name: str
    vit: ViTConfig
    images: int
    global_px: int
    local_px: int
    prototypes: int


CASES = {
    "small": Case("ViT-Ti/14, 56 + 28 px", vit_config("vit_tiny_patch14", image_px=56), 20, 56, 28, 4096),
    "vit_s": Case("ViT-S/14, 224 + 98 px", vit_config("vit_small_patch14"), 5, 224, 98, 16384),
}


def batch_of(case: Case) -> Batch:
    generator = torch.Generator().manual_seed(0)
    side = case.global_px // case.vit.patch_px
    masks = masks_of_step(MaskConfig(), 2 * case.images, (side, side), seed=0, step=0, microgroup=0)
    return make_batch(
        torch.randn(2 * case.images, 3, case.global_px, case.global_px, generator=generator),
        torch.randn(LOCAL_CROPS * case.images, 3, case.local_px, case.local_px, generator=generator),
        masks,
    )


def objective_of(kind: type[DinoObjective], case: Case) -> DinoObjective:
    torch.manual_seed(0)
    head = HeadConfig(prototypes=case.prototypes, bottleneck=256, hidden=2048)
    return kind(vit_config_with(case.vit), ObjectiveConfig(dino_head=head, ibot_head=head))


def our_step(case: Case, batch: Batch, world: World) -> Callable[[], object]:
    """The step of a run: sharded, fused AdamW, checked on all ranks."""
    objective = objective_of(DinoObjective, case)
    shard_objective(objective, make_mesh(ShardingConfig(), 1, 1, "cpu"))
    optimizer = build_optimizer(objective.student, OptimizerConfig())
    drop_path = DropPath(vit_config_with(case.vit), case.images, LOCAL_CROPS, seed=0)
    stepper = Stepper(objective, optimizer, 3.0, drop_path, world)
    return lambda: stepper.run([LoadedBatch(0, range(1), batch, [], [])], VALUES)


def plain_step(case: Case, batch: Batch) -> Callable[[], object]:
    objective = objective_of(PlainObjective, case)
    objective.images = case.images
    optimizer = build_optimizer(objective.student, OptimizerConfig())
    set_step_values(optimizer, VALUES)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        objective(batch, VALUES.teacher_temperature)["total"].backward()
        clip_per_submodule(objective.student, 3.0)
        optimizer.step()
        objective.update_teacher(VALUES.momentum)

    return step


def vit_config_with(vit: ViTConfig) -> ViTConfig:
    return ViTConfig(**{**vit.to_dict(), "drop_path": DROP_PATH})


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time; with one thread CPU time, which other programs on the machine disturb less."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    work()
    return clock() - start


def matmul_gflops(side: int = 2048) -> float:
    a, b = torch.randn(side, side), torch.randn(side, side)
    return 2 * side**3 / min(seconds(lambda: a @ b) for _ in range(5)) / 1e9


@dataclass(frozen=True)
class Measured:
    """Medians of the rounds."""

    seconds: dict[str, float]  # of a step, by way
    gflop: float
    peak_gflops: float

    @property
    def share_of_peak(self) -> float:
        return self.gflop / self.seconds["ours"] / self.peak_gflops


def measure(case: Case, rounds: int, world: World) -> Measured:
    batch = batch_of(case)
    ways = {"plain": plain_step(case, batch), "ours": our_step(case, batch, world)}
    with FlopCounterMode(display=False, custom_mapping=ATTENTION_FLOPS) as counter:
        ways["ours"]()
    ways["plain"]()
    times: dict[str, list[float]] = {name: [] for name in ways}
    peaks = []
    for _ in range(rounds):
        peaks.append(matmul_gflops())
        for name, way in ways.items():
            times[name].append(seconds(way))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return Measured(medians, counter.get_total_flops() / 1e9, statistics.median(peaks))


def run(case: Case, rounds: int, world: World) -> None:
    measured = measure(case, rounds, world)
    medians, gflop, peak = measured.seconds, measured.gflop, measured.peak_gflops
    reached = gflop / medians["ours"]
    print(f"{case.name}, {case.images} images, 2 + {LOCAL_CROPS} crops, {case.prototypes} prototypes, drop {DROP_PATH}")
    for name, median in medians.items():
        ratio = medians["plain"] / median
        print(f"  {name:6} {median:7.3f} s/step  {case.images / median:6.2f} images/s  {ratio:5.2f}×")
    print(
        f"  ours: {gflop:.0f} GFLOP/step, {reached:.0f} GFLOP/s = {measured.share_of_peak:.0%} of matmul's "
        f"{peak:.0f} GFLOP/s"
    )


GOALS = {"small": 0.6, "vit_s": 0.8}  # of the matrix product's peak


def figures(size: Size) -> list[Figure]:
    torch.set_num_threads(1)
    found = []
    with joined_world("cpu", 600) as world:
        for name, case in CASES.items():
            measured = measure(case, 3 if size == "small" else 6, world)
            against_plain = measured.seconds["plain"] / measured.seconds["ours"]
            peak = f"a large fp32 matrix product, {measured.peak_gflops:.0f} GFLOP/s"
            found += [
                Figure(f"{case.name}: share of peak", measured.share_of_peak, "share", peak, GOALS[name], "higher"),
                Figure(f"{case.name}: times as fast", against_plain, "×", "one pass a crop size", 1.0, "higher"),
            ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"fp32, {torch.get_num_threads()} threads, {arguments.rounds} rounds")
    with joined_world("cpu", 600) as world:
        for name, case in CASES.items():
            if arguments.only in (None, name):
                run(case, arguments.rounds, world)


if __name__ == "__main__":
    main()
