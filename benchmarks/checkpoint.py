"""How long a checkpoint holds training up, in the background and at once; what its checksums cost.

    python -m benchmarks.checkpoint [--rounds 3] [--model vit_small_patch14] [--folder /tmp]

One process, a full training state (student, teacher, two heads each, AdamW). Both ways write the same files; they run
alternately. The figure is the ratio of the medians of the time that the call keeps the training thread. The same state
is then written by torch's own writer and by ours, which takes checksums, alternately; and what was written is verified.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save

from benchmarks.figures import Figure, Size
from panendofm.backbone import Execution, vit_config
from panendofm.records.run import CheckpointInfo, RunFolder
from panendofm.runtime.files import damage_checksum
from pretrain.build import build_objective
from pretrain.config import CheckpointConfig
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.optimizer.config import OptimizerConfig
from pretrain.optimizer.parameter_groups import build_optimizer
from pretrain.parallel.config import ShardingConfig
from pretrain.parallel.world import joined_world
from pretrain.run.checkpoints import CheckpointStore, training_state
from pretrain.run.checksummed_writer import ChecksummedWriter
from pretrain.run.retention import Retention
from pretrain.sharding import make_mesh


@dataclass(frozen=True)
class Checksums:
    """Seconds of torch's own writer and of ours, the median ratio of pairs, and the speed of verifying."""

    plain: float
    checksummed: float
    ratio: float
    verified_mb_per_second: float


@dataclass(frozen=True)
class Measured:
    blocked: dict[str, float]  # seconds: "sync", "async"
    checksums: Checksums


def figures(size: Size) -> list[Figure]:
    prototypes, rounds = (4096, 2) if size == "small" else (65536, 3)
    folder = Path(tempfile.mkdtemp())
    try:
        measured = compare("vit_small_patch14", prototypes, rounds, folder)
    finally:
        shutil.rmtree(folder)
    share = measured.blocked["async"] / measured.blocked["sync"]
    sums = measured.checksums
    return [
        Figure("training is held up", share, "×", "writing at once; state of a ViT-S", 0.10),
        Figure("written with checksums", sums.ratio, "×", "torch's own writer, by the clock", 1.05),
        Figure("verified", sums.verified_mb_per_second, "MB a CPU s", "from the page cache", 500.0, "higher"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="vit_small_patch14")
    parser.add_argument("--prototypes", type=int, default=65536)
    parser.add_argument("--folder", default=None, help="where checkpoints are written; default: the temporary folder")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        measured = compare(arguments.model, arguments.prototypes, arguments.rounds, folder)
    finally:
        shutil.rmtree(folder)
    blocked, sums = measured.blocked, measured.checksums
    print(f"written: plain {sums.plain:.3f} s, checksummed {sums.checksummed:.3f} s")
    print(f"ratio checksummed / plain: {sums.ratio:.3f} (wanted: at most 1.05)")
    print(f"verified at {sums.verified_mb_per_second:.0f} MB/s (wanted: at least 500)")
    print(f"blocked: sync {blocked['sync']:.3f} s, async {blocked['async']:.3f} s")
    print(f"ratio async / sync: {blocked['async'] / blocked['sync']:.3f} (wanted: below 0.10)")


def compare(model: str, prototypes: int, rounds: int, folder: Path) -> Measured:
    vit = vit_config(model)
    heads = HeadConfig(prototypes, 256)
    with joined_world("cpu", 600) as world:
        sharding = ShardingConfig()
        objective = build_objective(
            vit,
            ObjectiveConfig(dino_head=heads, ibot_head=heads),
            Execution(),
            sharding,
            make_mesh(sharding, 1, 1, "cpu"),
            world.device,
            seed=0,
        )
        optimizer = build_optimizer(objective.student, OptimizerConfig())
        state = training_state(objective, optimizer)
        print(f"{model}: {sum(t.nbytes for t in state.values()) / 1e9:.2f} GB in {len(state)} tensors")
        stores = {}
        for name in ("sync", "async"):
            config = CheckpointConfig(keep_last=1, asynchronous=name == "async")
            run = RunFolder(folder / name)
            stores[name] = CheckpointStore(run, world, config, Retention(run, config))
        blocked: dict[str, list[float]] = {name: [] for name in stores}
        for step in range(rounds + 1):
            for name, store in stores.items():
                began = time.perf_counter()
                store.save(state, CheckpointInfo(step, vit.to_dict()))
                blocked[name].append(time.perf_counter() - began)
                store.wait(must_succeed=True)
                # The first save also makes the staging buffers, once in a run.
                print(f"  round {step} {name}: {blocked[name][-1]:.3f} s" + ("  (not counted)" if step == 0 else ""))
        medians = {name: statistics.median(times[1:]) for name, times in blocked.items()}
        return Measured(medians, _checksums(state, rounds, folder))


def _checksums(state: dict[str, Tensor], rounds: int, folder: Path) -> Checksums:
    """Writing with and without, and reading to verify: from the page cache, so that the hash is what is measured."""
    writers = {"plain": FileSystemWriter, "checksummed": ChecksummedWriter}
    seconds: dict[str, list[float]] = {name: [] for name in writers}
    for number in range(2 * rounds + 1):
        for name in writers if number % 2 else reversed(writers):
            shutil.rmtree(folder / name, ignore_errors=True)
            began = time.perf_counter()
            save(state, storage_writer=writers[name](folder / name))
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    # Pair by pair: what else the disk does changes from one minute to the next.
    ratio = statistics.median(b / a for a, b in zip(seconds["plain"][1:], seconds["checksummed"][1:], strict=True))
    files = sorted((folder / "checksummed").glob("*.distcp"))
    began = time.process_time()
    for file in files:
        damage_checksum(file)
    speed = sum(file.stat().st_size for file in files) / (time.process_time() - began) / 1e6
    return Checksums(medians["plain"], medians["checksummed"], ratio, speed)


if __name__ == "__main__":
    main()
