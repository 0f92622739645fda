"""What `launch doctor --full` adds: a training whose last rank is killed, resumed, exported and read again."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from launch.doctor.rows import Row, judged
from panendofm.backbone import load_backbone
from panendofm.records.metrics import losses_of, read_metrics
from panendofm.records.run import RunFolder
from panendofm.runtime.config import config_to_yaml
from panendofm.runtime.files import make_directory, write_text
from pretrain import PretrainConfig, World, place_of_process
from pretrain.selftest import differences

STEPS = 12
_SAVED_EVERY = 4
_KILLED_AFTER = 6
# The run's own time for a rank that does not answer, and what the ends of processes may take beside it.
_TIMEOUT_SECONDS, _ENDING_SECONDS = 30.0, 30.0
_LONGEST_SECONDS = 150.0  # of one run
_POLL_SECONDS = 0.1
# A CPU computes the same twice; a GPU adds up in an order of its own. Losses and weights, relative.
_TOLERANCES = {"cpu": (0.0, 0.0), "cuda": (1e-2, 5e-2)}
_REPORT = "report it with doctor.json"


@dataclass(frozen=True)
class Ended:
    """How one rank's process ended."""

    code: int
    at: float  # by the wall clock
    said: str  # its last line


def check_acceptance(world: World, config: PretrainConfig, folder: Path) -> Iterator[Row]:
    """`config` is one of a few steps, as the training of before."""
    if world.device.type == "cuda":
        torch.cuda.empty_cache()  # for the trainings, which share the GPU with this process
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    whole = _train(world, config, undisturbed)
    bad = _failed(whole)
    if bad is not None:
        advice = f"look for the sentence in docs/how-to/pretrain.md, or {_REPORT}"
        yield Row("training as a command", "fail", bad, advice)
        return
    yield Row("training as a command", "pass", f"{STEPS} steps by {world.size} processes of python -m pretrain")
    killed = _train(world, config, disturbed, killed=True)
    yield _lost_rank(world, killed)
    yield _resumed(world, _train(world, config, disturbed), undisturbed, disturbed)
    yield world.broadcast(_exported(disturbed, folder / "release") if world.is_first else None)


def acceptance_config(config: PretrainConfig, run: Path) -> PretrainConfig:
    return replace(
        config,
        run=replace(config.run, dir=str(run), stop_at=f"{STEPS} steps", timeout_seconds=_TIMEOUT_SECONDS),
        checkpoint=replace(config.checkpoint, every_steps=_SAVED_EVERY, keep_last=2),
    )


def _train(world: World, config: PretrainConfig, run: Path, killed: bool = False) -> list[Ended]:
    """A process of every rank trains; `killed`: that of the last rank only until it has logged a few steps."""
    file = run.with_suffix(".yaml")
    if world.is_first:
        make_directory(run.parent)
        write_text(file, config_to_yaml(acceptance_config(config, run)))
    port = world.broadcast(_free_port() if world.is_first else None)  # after the file was written
    output = run.parent / f"{run.name}-{world.rank}.txt"
    with output.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "pretrain", str(file)],
            env=_environment(port),
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        until = time.monotonic() + _LONGEST_SECONDS
        try:
            while process.poll() is None and time.monotonic() < until:
                if killed and world.rank == world.size - 1 and _logged(run) >= _KILLED_AFTER:
                    break
                time.sleep(_POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
    lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return world.gather(Ended(process.returncode, time.time(), lines[-1] if lines else ""))


def _environment(port: int) -> dict[str, str]:
    """Of a rank of a world beside this one."""
    place = place_of_process(os.environ)
    return os.environ | {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.size),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_size),
        "MASTER_ADDR": place.address or "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def _logged(run: Path) -> int:
    file = RunFolder(run).metrics
    return len(read_metrics(file)) if file.is_file() else 0


def _failed(ended: list[Ended]) -> str | None:
    """The first rank whose process did not come through."""
    for rank, end in enumerate(ended):
        if end.code != 0:
            return f"rank {rank} ended with code {end.code}: {end.said}"
    return None


def _lost_rank(world: World, ended: list[Ended]) -> Row:
    """The others notice that a rank is gone: none trains on, none hangs."""
    *others, victim = ended
    if victim.code == 0:
        return Row("killed rank", "warn", "the training was over before it could be killed", _REPORT)
    if not others:
        return Row("killed rank", "skip", "there is one process")
    seconds = max(end.at for end in others) - victim.at
    went_on = [rank for rank, end in enumerate(others) if end.code == 0]
    good = not went_on and seconds <= _TIMEOUT_SECONDS + _ENDING_SECONDS
    found = f"rank {world.size - 1} was killed, and the others ended within {max(seconds, 0):.0f} s"
    if went_on:
        found = f"rank {world.size - 1} was killed, and rank {went_on[0]} trained on"
    remedy = f"set TORCH_NCCL_ASYNC_ERROR_HANDLING=1 in the cluster file's environment, and {_REPORT}"
    return judged("killed rank", good, found, remedy, seconds=round(seconds, 1), codes=[end.code for end in ended])


def _resumed(world: World, ended: list[Ended], undisturbed: Path, disturbed: Path) -> Row:
    bad = _failed(ended)
    remedy = f"a run could not be resumed exactly here: do not train, and {_REPORT}"
    if bad is not None:
        return Row("resume", "fail", bad, remedy)
    found = (_loss_difference(disturbed, undisturbed), *differences(disturbed, undisturbed)) if world.is_first else None
    losses, weights, name = world.broadcast(found)
    loss_tolerance, weight_tolerance = _TOLERANCES[world.device.type]
    good = losses <= loss_tolerance and weights <= weight_tolerance
    said = f"killed and resumed against left alone: losses within {losses:.0e}, weights within {weights:.0e}"
    if weights > weight_tolerance:
        said += f" ({name})"
    return judged("resume", good, said, remedy, losses=losses, weights=weights)


def _loss_difference(one: Path, other: Path) -> float:
    """The largest relative difference of a loss in any step; infinite when the steps are not the same."""
    ours, theirs = (read_metrics(RunFolder(run).metrics) for run in (one, other))
    if [line["step"] for line in ours] != [line["step"] for line in theirs] or len(ours) != STEPS:
        return math.inf
    worst = 0.0
    for line, expected in zip(ours, theirs, strict=True):
        for name, value in losses_of(expected).items():
            found = losses_of(line).get(name)
            if found is None or value is None:
                return math.inf
            worst = max(worst, abs(found - value) / max(abs(value), 1e-3))
    return worst


def _exported(run: Path, release: Path) -> Row:
    """A release of the run's weights, verified, and loaded with the same features as the checkpoint."""
    remedy = f"the weights of a run could not be handed on: {_REPORT}"
    for words in (
        ["export", str(run), f"out={release}", "formats=[hub]", "name=acceptance"],
        ["backbone", "verify", str(release)],
    ):
        command = [sys.executable, "-m", "panendofm", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return Row("export and reload", "fail", f"panendofm {words[0]}: {said[-1] if said else '?'}", remedy)
    checkpoint = load_backbone(str(RunFolder(run).selected_or_latest()))
    exported = load_backbone(str(release))
    side = checkpoint.model.config.image_px
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        error = float((checkpoint.model.eval()(images).cls - exported.model.eval()(images).cls).abs().max())
    found = f"a release of {exported.architecture}, verified; its features differ by {error:.0e} from the checkpoint's"
    return judged("export and reload", error == 0, found, remedy, error=error)
