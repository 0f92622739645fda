"""Training steps on GPUs that are not there: their peak memory beside the plan's, and whether every config passes.

    cuda/bin/python -m benchmarks.rehearsal grid [--sizes large giant] [--ranks 8 64]
    cuda/bin/python -m benchmarks.rehearsal shipped
    cuda/bin/python -m benchmarks.rehearsal all     # `launch rehearse` for every shipped config on 1, 8 and 32 ranks

It needs a torch that is built for CUDA, and no GPU: see `python -m launch rehearse`. Memory is the peak of torch's own
allocator, which the null CUDA runtime gives addresses without pages.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from launch.rehearse.null_cuda import is_loaded, restart_with_null_cuda
from panendofm.runtime.config import CONFIGS, load_config
from panendofm.runtime.errors import UserError

SIZES = {"small": 32, "base": 32, "large": 32, "giant": 8}  # images of a rank
RANKS = (1, 8, 64)
WORLDS = ((1, 1), (1, 8), (4, 8))  # nodes, GPUs of each
_LOCAL = 8


@dataclass(frozen=True)
class Case:
    name: str
    ranks: int
    words: tuple[str, ...]
    recipe: str = "panendofm_vitl14"

    def config(self) -> Any:
        from pretrain import PretrainConfig

        return load_config(
            PretrainConfig, CONFIGS / "pretrain" / f"{self.recipe}.yaml", ["run.dir=x", "data.shards=y", *self.words]
        )


def memory_cases(sizes: list[str], of_ranks: list[int]) -> list[Case]:
    cases = []
    for size, ranks, bf16, recomputed in product(sizes, of_ranks, (True, False), (False, True)):
        images = SIZES[size]
        words = (
            f"model.name=vit_{size}_patch14",
            f"batch.microgroup_images={images}",
            f"batch.images={images * ranks}",
            f"sharding.param_type={'bfloat16' if bf16 else 'float32'}",
            f"execution.checkpoint_blocks={str(recomputed).lower()}",
        )
        kind = f"{'bf16' if bf16 else 'fp32'}{', recomputed' if recomputed else ''}"
        cases.append(Case(f"ViT-{size}, {kind}", ranks, words))
    return cases


def shipped_cases() -> list[Case]:
    """The shipped recipes on the machines that they are for."""
    return [
        Case("panendofm_vitl14", 32, ()),
        Case("panendofm_vitl14", 16, ()),
        Case("panendofm_vitl14_reg4", 32, ("model.name=vit_large_patch14_reg4",)),
        Case(
            "panendofm_vitl14_single_gpu",
            1,
            ("batch.accumulation_steps=16", "execution.checkpoint_blocks=true", "sharding.mode=fsdp"),
        ),
        Case(
            "panendofm_vitl14_high_resolution",
            32,
            (
                *("batch.microgroup_images=8", "augment.global_px=518", "augment.local_px=98"),
                "execution.checkpoint_blocks=true",
            ),
        ),
        *(Case(name, 32, (), name) for name in ("distill_vitb14", "distill_vits14")),
        Case("distill_vits14", 8, (), "distill_vits14"),
        Case("adapt", 1, (), "adapt"),
        Case("panendofm_published", 16, (), "panendofm_published"),
    ]


def measured_peak(case: Case) -> tuple[int, int]:
    """The allocator's peak of a second step, and the plan's."""
    import torch

    from pretrain.plan.requirements import requirements_of
    from pretrain.rehearsal.fake_run import FakeRun, fake_world

    config, local = case.config(), min(case.ranks, _LOCAL)
    with fake_world(0, case.ranks, local, torch.device("cuda", 0)) as world, torch.backends.cudnn.flags(enabled=False):
        run = FakeRun(config, world)
        run.start()
        run.step(0)
        torch.cuda.reset_peak_memory_stats()
        run.step(1)
        return torch.cuda.max_memory_allocated(), requirements_of(config, case.ranks, local).memory.peak


def memory(cases: list[Case]) -> None:
    worst = 0.0
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for case, (peak, planned) in zip(cases, pool.imap(measured_peak, cases), strict=True):
            ratio = planned / peak
            worst = max(worst, abs(ratio - 1))
            print(f"{case.name} | {case.ranks} | {peak / 1e9:.2f} | {planned / 1e9:.2f} | {ratio:.3f}", flush=True)
    print(f"worst deviation {worst:.1%}")


def rehearse_all(names: list[str]) -> bool:
    """Whether the shipped configs pass on every world; with the time of each, and of a core."""
    began = time.monotonic()
    files = [file for file in sorted((CONFIGS / "pretrain").glob("*.yaml")) if not names or file.stem in names]
    tasks = [(file, nodes, gpus) for file in files for nodes, gpus in WORLDS]
    # Two at a time: a world of one rank has work for one core alone.
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        passed = list(pool.map(rehearsed, *zip(*tasks, strict=True)))
    print(f"all: {time.monotonic() - began:.0f} s, {_processor_seconds():.0f} s of a core")
    return all(passed)


def rehearsed(file: Path, nodes: int, gpus: int) -> bool:
    import torch

    from launch.rehearse.command import rehearsed_config
    from pretrain import PretrainConfig
    from pretrain.rehearsal import RehearsalError, rehearse

    start, before = time.monotonic(), _processor_seconds()
    config, changed = rehearsed_config(load_config(PretrainConfig, file, ["run.dir=x", "data.shards=y"]), nodes * gpus)
    passed = True
    try:
        done = rehearse(config, nodes, gpus, torch.device("cuda", 0), measured=False)
        said = f"no fault in {done.first.operations:,} operations, {len(done.first.step_collectives)} collectives"
    except (RehearsalError, UserError) as fault:
        said, passed = f"fault: {fault}", False
    took = f"{time.monotonic() - start:.0f} s, {_processor_seconds() - before:.0f} s of a core"
    print(f"{file.stem} | {nodes * gpus} | {took} | {said}{changed}", flush=True)
    return passed


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("grid", "shipped", "all"))
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--ranks", nargs="+", type=int, default=list(RANKS))
    parser.add_argument("--configs", nargs="+", default=[], metavar="NAME", help="of `all`: these alone")
    arguments = parser.parse_args()
    if not is_loaded():
        restart_with_null_cuda(_LOCAL)
    if arguments.what == "all":
        sys.exit(0 if rehearse_all(arguments.configs) else 1)
    memory(memory_cases(arguments.sizes, arguments.ranks) if arguments.what == "grid" else shipped_cases())


if __name__ == "__main__":
    main()
