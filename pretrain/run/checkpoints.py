"""Checkpoints: written in the background, whole or absent, readable by any number of ranks.

A checkpoint's folder holds torch's distributed checkpoint (`.metadata`, one `.distcp` file per rank) and a description
that lists its files with their sizes and checksums. It is written under a name that starts with a dot and renamed when
all ranks are done.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from panendofm.backbone import SafeReader
from panendofm.records.run import CheckpointInfo, RunFolder, fault_of_files, read_checkpoint_info, write_checkpoint_info
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import TEMPORARY_MARK, damage_checksum, make_directory, remove_leftovers, sync_directory
from pretrain.config import CheckpointConfig
from pretrain.parallel.local import local
from pretrain.parallel.world import World
from pretrain.run.checksummed_writer import ChecksummedWriter
from pretrain.run.retention import Retention, remove_checkpoint


def training_state(objective: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Every tensor that a run is resumed from, by name: the objective's, and `optimizer.NAME.exp_avg` and so on."""
    state: dict[str, Tensor] = dict(objective.state_dict())
    for group in optimizer.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            for kind, tensor in optimizer.state[parameter].items():
                state[f"optimizer.{name}.{kind}"] = tensor
    return state


def stage(state: Mapping[str, Tensor], buffers: dict[str, Tensor], device: torch.device) -> None:
    """Copy into buffers on the host that are made once: the only part of a save that training waits for."""
    with torch.no_grad():
        for name, tensor in state.items():
            if name in buffers:
                local(buffers[name]).copy_(local(tensor), non_blocking=True)
            else:
                buffers[name] = tensor.detach().to("cpu", copy=True)
    if device.type == "cuda":
        torch.cuda.synchronize()


_ANCHOR = "anchor_backbone."
_EARLIER_ANCHOR = "gram_anchor."


class NonFiniteStateError(Exception):
    """Raised on all ranks alike."""


@dataclass(frozen=True)
class Extract:
    """A part of every checkpoint that is written once more, as a checkpoint of another folder."""

    run: RunFolder
    retention: Retention

    def state_of(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(state)

    def info_of(self, info: CheckpointInfo) -> CheckpointInfo:
        return info


class CheckpointStore:
    """The checkpoints of one run. All ranks call every method alike."""

    def __init__(
        self,
        run: RunFolder,
        world: World,
        config: CheckpointConfig,
        retention: Retention,
        extracts: Sequence[Extract] = (),
    ) -> None:
        self.run = run
        self.world = world
        self.config = config
        self.retention = retention
        # The run's own last: where that is, the others are too.
        self._written = [*extracts, Extract(run, retention)]
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._failure: str | None = None  # of the newest save, on all ranks alike
        self._buffers: dict[str, Tensor] = {}
        if world.is_first:
            for one in self._written:
                make_directory(one.run.checkpoints)
                remove_leftovers(one.run.checkpoints)
                remove_leftovers(one.run.path)

    def save(self, state: Mapping[str, Tensor], info: CheckpointInfo) -> None:
        """Copy the state and write it in the background. `info` says what it is; its files are filled in."""
        self.wait()
        stage(state, self._buffers, self.world.device)
        self._thread = threading.Thread(target=self._write_in_thread, args=(info,), name="save", daemon=True)
        self._thread.start()
        if not self.config.asynchronous:
            self.wait()

    def wait(self, must_succeed: bool = False) -> None:
        """Until the save under way has ended. A failed one is a warning; the checkpoints before it are intact.

        With `must_succeed` it is an error when the newest save has failed, also when that was known before.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._failure = self._failure_on_any_rank(_reason(self._error))
            not_finite = isinstance(self._error, NonFiniteStateError)
            self._error = None
            if not_finite:
                raise UserError(
                    f"{self._failure}; the run ends, because no further step can mend that: begin a new run.dir from a "
                    "checkpoint before (init.weights) with a lower schedule.base_lr, or look at the samples of the "
                    "steps before."
                )
            if self._failure is not None and not must_succeed and self.world.is_first:
                warn(f"{self._failure}; training goes on, the checkpoints before it are intact.")
        if must_succeed and self._failure is not None:
            raise UserError(f"{self._failure}; the checkpoints before it are intact, put this right and run again.")

    def _failure_on_any_rank(self, own: str | None) -> str | None:
        """What went wrong on any rank, in one sentence."""
        reasons = [reason for reason in self.world.gather(own) if reason is not None]
        if not reasons:
            return None
        free_mb = shutil.disk_usage(self.run.checkpoints).free / 1e6
        needed_mb = self._staged_bytes() * self.world.size / 1e6
        # torch's writer may lose the system's own word for it.
        full = free_mb < needed_mb or any(os.strerror(errno.ENOSPC) in reason for reason in reasons)
        why = f"the disk is full ({free_mb:.0f} MB are free)" if full else reasons[0]
        return f"could not save a checkpoint to {self.run.checkpoints}: {why}"

    def _staged_bytes(self) -> int:
        return sum(local(tensor).nbytes for tensor in self._buffers.values())

    def _write_in_thread(self, info: CheckpointInfo) -> None:
        try:
            self._write(info)
        except BaseException as error:  # wait() raises it, on all ranks
            self._error = error

    def _write(self, info: CheckpointInfo) -> None:
        self._refuse_non_finite()
        for one in self._written:
            self._write_checkpoint(one.run, one.state_of(self._buffers), one.info_of(info))
        # A run that skips step after step may be beyond help: what it saves must not push out what was good.
        if self.world.is_first and info.skipped_in_a_row == 0:
            for one in self._written:
                one.retention.remove_old()

    def _write_checkpoint(self, run: RunFolder, state: dict[str, Tensor], info: CheckpointInfo) -> None:
        final = run.checkpoint(info.step)
        temporary = final.with_name(f".{final.name}{TEMPORARY_MARK}save")
        try:
            writer = ChecksummedWriter(temporary)
            save(state, storage_writer=writer, process_group=self.world.saving)
            checksums = {name: c for own in self._gather_while_saving(writer.checksums) for name, c in own.items()}
            if not self.world.is_first:
                return
            files = {p.name: p.stat().st_size for p in sorted(temporary.iterdir())}
            # torch renames its index once it is written.
            checksums = {name: checksums.get(name) or damage_checksum(temporary / name) for name in files}
            write_checkpoint_info(temporary, replace(info, files=files, checksums=checksums))
            if final.exists():  # an older save of the same step, refused when the run was resumed
                remove_checkpoint(final)
            sync_directory(temporary)
            temporary.rename(final)
            sync_directory(final.parent)
        except BaseException:
            if self.world.is_first:
                shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _refuse_non_finite(self) -> None:
        """Weights that are not finite are never written, nor is anything removed in their favor."""
        own = next((name for name, tensor in self._buffers.items() if not _is_finite(local(tensor))), None)
        found = [name for name in self._gather_while_saving(own) if name is not None]
        if found:
            raise NonFiniteStateError(f"'{found[0]}' holds values that are not finite (NaN or infinity)")

    def _gather_while_saving(self, value: Any) -> list[Any]:
        """What every rank gave, over the group that training leaves to the saving thread."""
        gathered: list[Any] = [None] * self.world.size
        dist.all_gather_object(gathered, value, group=self.world.saving)
        return gathered

    def load_latest(self, state: Mapping[str, Tensor], vit: dict[str, Any]) -> CheckpointInfo | None:
        """Load the newest usable checkpoint into `state`; what it is, or None when the run has none yet.

        One that is torn or of another architecture is named and passed over in favor of the one before.
        """
        steps: list[int] = self.world.broadcast(self.run.steps() if self.world.is_first else None)
        for step in steps:
            path = self.run.checkpoint(step)
            fault = self.world.broadcast(_fault(path, state, vit) if self.world.is_first else None)
            if fault is None:
                fault = self._fault_of_files(path)
            if fault is None:
                fault = self._load(path, state)
            if fault is None:
                return read_checkpoint_info(path)
            if self.world.is_first:
                warn(f"the checkpoint {path} is passed over: {fault}.")
        if steps:
            raise UserError(
                f"none of the {len(steps)} checkpoints in {self.run.checkpoints} can be used; "
                "restore one, or choose another run.dir to begin anew."
            )
        return None

    def _fault_of_files(self, path: Path) -> str | None:
        """Every rank verifies its share."""
        info = read_checkpoint_info(path)
        names = sorted(info.files)[self.world.rank :: self.world.size]
        faults = [fault for fault in self.world.gather(fault_of_files(path, info, names)) if fault is not None]
        return faults[0] if faults else None

    def _load(self, path: Path, state: Mapping[str, Tensor]) -> str | None:
        try:
            load(_as_stored(path, state), storage_reader=SafeReader(path), process_group=self.world.control)
        except (CheckpointException, UserError, OSError, RuntimeError) as error:
            reason = _reason(error)
        else:
            reason = None
        reasons = [r for r in self.world.gather(reason) if r is not None]
        return f"it could not be read ({reasons[0]})" if reasons else None


def _as_stored(path: Path, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state under the names that the checkpoint has for it: the anchor was called otherwise once."""
    stored = SafeReader(path).read_metadata().state_dict_metadata
    if not any(name.startswith(_EARLIER_ANCHOR) for name in stored):
        return dict(state)
    return {
        _EARLIER_ANCHOR + name.removeprefix(_ANCHOR) if name.startswith(_ANCHOR) else name: tensor
        for name, tensor in state.items()
    }


def _fault(path: Path, state: Mapping[str, Tensor], vit: dict[str, Any]) -> str | None:
    """What is wrong with a checkpoint, as far as can be seen without reading its tensors."""
    try:
        info = read_checkpoint_info(path)
        stored = SafeReader(path).read_metadata().state_dict_metadata
    except UserError as error:
        return str(error).rstrip(".")
    if info.vit != vit:
        return "it is of another architecture"
    for name, tensor in _as_stored(path, state).items():
        item = stored.get(name)
        if not isinstance(item, TensorStorageMetadata) or item.size != tensor.shape:
            return f"it is of another architecture: its '{name}' is missing or has another shape"
    return None


def _is_finite(tensor: Tensor) -> bool:
    """One pass without a copy: the extremes of numbers among which one is NaN are NaN."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return True
    low, high = tensor.aminmax()
    return bool(low.isfinite() & high.isfinite())


def _reason(error: BaseException | None) -> str | None:
    """The first cause of an error, in one line."""
    if error is None:
        return None
    if isinstance(error, CheckpointException) and error.failures:
        error = next(iter(error.failures.values()))[0]
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return f"{type(error).__name__}: {error}".split("\n")[0]
