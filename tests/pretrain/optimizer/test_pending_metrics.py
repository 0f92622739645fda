"""Steps whose results stay on the device: the same bits as steps that are looked at one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_faults import decide_on_device
from engine_runs import metrics_of, run_ranks, tensors_of, words_of
from golden_steps import GoldenStep, load_golden, loaded, stepper_of, whole
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pretrain.data.augment import AugmentConfig, draw_params
from pretrain.data.augment.photometric import plan_of
from pretrain.data.batch import Batch
from pretrain.data.loader import LoadedBatch
from pretrain.optimizer.step import Stepper, StepResult, read_results
from pretrain.optimizer.warm_start import HeadsPhase
from pretrain.parallel.world import World, joined_world
from pretrain.run.checkpoints import training_state

NAMES = ("step_sinkhorn_separate_heads", "step_centering_shared_head_2steps")
# What tells the host a number of the device, or a size that depends on one.
READS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2", "unique_dim", "bincount")


def stepper_for(step: GoldenStep, world: World, decides_on_device: bool) -> Stepper:
    stepper = stepper_of(step.objective(), world)
    stepper.decides_on_device = decides_on_device
    return stepper


def batches(step: GoldenStep) -> list[LoadedBatch]:
    """Three steps; the images of the second are no numbers."""
    parts = [loaded(step.batch("step0/"), number) for number in range(3)]
    parts[1].batch.global_crops = parts[1].batch.global_crops * torch.nan
    return parts


def state_of(stepper: Stepper) -> dict[str, Tensor]:
    return {name: whole(tensor) for name, tensor in training_state(stepper.objective, stepper.optimizer).items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_skipped_step_changes_nothing_wherever_it_is_decided(golden: Path, name: str) -> None:
    step = load_golden(golden, name)
    states, results = [], []
    with joined_world("cpu", 60) as world:
        for decides_on_device in (False, True):
            stepper = stepper_for(step, world, decides_on_device)
            unread, seen = [], []
            for part in batches(step):
                unread.append(stepper.run([part], step.values))
                seen.append(state_of(stepper))
            assert all(torch.equal(seen[0][key], seen[1][key]) for key in seen[0])  # AdamW's count of steps, too
            moved = [key for key in seen[0] if not torch.equal(seen[1][key], seen[2][key])]
            assert {key.split(".")[0] for key in moved} >= {"student", "teacher", "optimizer"}
            states.append(seen[-1])
            results.append(read_results(unread))
    assert [result.skipped for result in results[0]] == [False, True, False]
    assert repr(results[0]) == repr(results[1])  # NaN is not equal to itself
    assert [key for key in states[0] if not torch.equal(states[0][key], states[1][key])] == []


class Reads(TorchDispatchMode):
    """Lists the operations for which a host has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        indices = [i for i in args[1] if i is not None] if name in ("index", "index_put", "index_put_") else []
        if name in READS or any(i.dtype == torch.bool for i in indices):
            self.found.append(name)
        return function(*args, **(kwargs or {}))


def with_colors_to_change(batch: Batch) -> Batch:
    """The batch with crops of bytes, as `augment.where=gpu` hands them over."""
    often = {"grayscale_probability": 0.5, "solarize_probability": 0.9}
    config = AugmentConfig(local_crops=batch.local_crops_per_image, global_px=56, local_px=28, **often)
    params = [draw_params(config, 99, 99, 0, 0, key) for key in range(batch.images)]
    generator = torch.Generator().manual_seed(0)
    for name in ("global_crops", "local_crops"):
        crops = torch.randint(0, 256, getattr(batch, name).shape, dtype=torch.uint8, generator=generator)
        setattr(batch, name, crops)
    batch.photometric = plan_of(params, slice(0, 2), config), plan_of(params, slice(2, None), config)
    assert min(sum(batch.photometric[0].counts[:16]), *batch.photometric[0].counts[16:]) > 0  # all are there
    return batch


@pytest.mark.parametrize("name", NAMES)
def test_a_step_never_waits_for_the_device(golden: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, found = load_golden(golden, name), []
    with joined_world("cpu", 60) as world:
        stepper = stepper_for(step, world, decides_on_device=True)
        part = loaded(with_colors_to_change(step.batch("step0/")))
        stepper.run([part], step.values)  # FSDP prepares itself in the first one

        def noting(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
            def read(tensor: Tensor, *rest: Any) -> Any:
                found.append(name)
                return plain(tensor, *rest)

            return read

        for read in ("tolist", "numpy"):  # these do not pass the dispatcher
            monkeypatch.setattr(Tensor, read, noting(getattr(Tensor, read), read))
        with Reads() as reads:
            result = stepper.run([part], step.values)
        assert [*reads.found, *found] == []
        with Reads() as reads:
            assert isinstance(result.read(), StepResult)
            stepper.decides_on_device = False
            stepper.run([part], step.values)
        assert found == ["tolist"]
        assert reads.found == ["_local_scalar_dense"]  # the test sees one where there is one


def test_heads_phase_tells_how_long_its_losses_may_wait() -> None:
    phase = HeadsPhase(longest_steps=10, window_steps=3, plateau=0.5)
    assert phase.pending_at_most(0) == 3
    phase.record(0, 1.0)
    assert phase.pending_at_most(1) == 2
    for step in range(1, 6):
        phase.record(step, 1.0)
    assert phase.end == 6
    assert phase.pending_at_most(6) is None
    assert HeadsPhase(10, 3, plateau=0.0).pending_at_most(0) is None


def test_a_run_that_reads_rarely_decides_as_one_that_reads_every_step(shards: Path, tmp_path: Path) -> None:
    """The heads' phase ends after its second window, by their losses, whichever way these are read."""
    heads = {"warm_start__heads": "8 steps", "warm_start__heads_window": "2 steps", "warm_start__heads_plateau": 0.9}
    common = {**heads, "warm_start__when": "always", "warm_start__ramp": "2 steps", "checkpoint__every_steps": 100}
    common |= {"health__collapse_every_steps": 0}
    run_ranks(words_of(tmp_path / "often", shards, **common), 1)
    run_ranks(words_of(tmp_path / "rarely", shards, **common, log__every_steps=100), 1, sabotage=decide_on_device)
    often, rarely = (tensors_of(tmp_path / name / "checkpoints" / "step_0000012") for name in ("often", "rarely"))
    assert [name for name in often if not torch.equal(often[name], rarely[name])] == []
    rates = [line["schedule"].get("ramp_lr", 1.0) for line in metrics_of(tmp_path / "often")]
    assert rates[:6] == [0, 0, 0, 0, 0.5, 1]
    assert [line["step"] for line in metrics_of(tmp_path / "rarely")] == [0]
