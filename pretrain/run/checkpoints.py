"""Checkpoints: written in the background, whole or absent, readable by any number of ranks.

`checkpoints/step_0012500/` holds torch's distributed checkpoint (`.metadata`, one `.distcp` file per rank) and
`checkpoint.json`, which says what it is and lists its files with their sizes. It is written under a name that starts
with a dot and renamed when all ranks are done.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from backbone import SafeReader
from pretrain.parallel.world import World
from runtime.config import option
from runtime.console import warn
from runtime.errors import UserError
from runtime.files import TEMPORARY_MARK, make_directory, read_json, remove_leftovers, sync_directory, write_json

FORMAT = 1
DESCRIPTION_NAME = "checkpoint.json"
BEST_NAME = "best"
_NAME = re.compile(r"step_(\d{7,})")


@dataclass
class CheckpointConfig:
    """When to save, and what to keep."""

    every_steps: int = option("Steps between two checkpoints.", 1000)
    keep_last: int = option("Newest checkpoints that are kept.", 2)
    keep_every_steps: int | None = option("Checkpoints of every so many steps are kept for good.", None)
    asynchronous: bool = option("Write while training goes on; false waits for the disk.", True)

    def check(self) -> None:
        if self.every_steps < 1 or self.keep_last < 1 or (self.keep_every_steps or 1) < 1:
            raise UserError("checkpoint.every_steps, keep_last and keep_every_steps must be at least 1.")


class CheckpointStore:
    """The checkpoints of one run. All ranks call every method alike."""

    def __init__(self, run: Path, world: World, config: CheckpointConfig) -> None:
        self.run, self.folder, self.world, self.config = run, run / "checkpoints", world, config
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._failure: str | None = None  # of the newest save, on all ranks alike
        self._buffers: dict[str, Tensor] = {}
        self.last_good_step: int | None = None  # what a roll-back would go to: kept, however old it is
        if world.is_first:
            make_directory(self.folder)
            remove_leftovers(self.folder)
            remove_leftovers(run)

    def save(self, step: int, state: Mapping[str, Tensor], description: dict[str, Any]) -> None:
        """Copy the state and write it in the background."""
        self.wait()
        self._stage(state)
        work = (step, {"format": FORMAT, "step": step, **description})
        self._thread = threading.Thread(target=self._write_noting_errors, args=work, name="save", daemon=True)
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
            self._failure = self._told_by_all(_reason(self._error))
            self._error = None
            if self._failure is not None and not must_succeed and self.world.is_first:
                warn(f"{self._failure}; training goes on, the checkpoints before it are intact.")
        if must_succeed and self._failure is not None:
            raise UserError(f"{self._failure}; the checkpoints before it are intact, put this right and run again.")

    def _told_by_all(self, reason: str | None) -> str | None:
        """What went wrong on any rank, in one sentence."""
        reasons = [told for told in self.world.gather(reason) if told is not None]
        if not reasons:
            return None
        free_mb, needed_mb = shutil.disk_usage(self.folder).free / 1e6, self._staged_bytes() * self.world.size / 1e6
        # torch's writer may lose the system's own word for it.
        full = free_mb < needed_mb or any(os.strerror(errno.ENOSPC) in told for told in reasons)
        why = f"the disk is full ({free_mb:.0f} MB are free)" if full else reasons[0]
        return f"could not save a checkpoint to {self.folder}: {why}"

    def _staged_bytes(self) -> int:
        return sum(_local(tensor).nbytes for tensor in self._buffers.values())

    def _stage(self, state: Mapping[str, Tensor]) -> None:
        """Copy into buffers on the host that are made once: the only part of a save that training waits for."""
        with torch.no_grad():
            for name, tensor in state.items():
                if name in self._buffers:
                    _local(self._buffers[name]).copy_(_local(tensor), non_blocking=True)
                else:
                    self._buffers[name] = tensor.detach().to("cpu", copy=True)
        if self.world.device.type == "cuda":
            torch.cuda.synchronize()

    def _write_noting_errors(self, step: int, description: dict[str, Any]) -> None:
        try:
            self._write(step, description)
        except BaseException as error:  # told to all ranks by wait()
            self._error = error

    def _write(self, step: int, description: dict[str, Any]) -> None:
        final = self.folder / f"step_{step:07d}"
        temporary = self.folder / f".{final.name}{TEMPORARY_MARK}save"
        try:
            writer = FileSystemWriter(temporary)
            save(dict(self._buffers), storage_writer=writer, process_group=self.world.saving)
            if not self.world.is_first:
                return
            files = {p.name: p.stat().st_size for p in sorted(temporary.iterdir())}
            write_json(temporary / DESCRIPTION_NAME, {**description, "files": files})
            if final.exists():  # an older save of the same step, refused when the run was resumed
                _remove(final)
            sync_directory(temporary)
            temporary.rename(final)
            sync_directory(self.folder)
        except BaseException:
            if self.world.is_first:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        self._remove_old()

    def _remove_old(self) -> None:
        steps = self.steps()
        keep = {*steps[: self.config.keep_last], self.last_good_step}
        if self.config.keep_every_steps is not None:
            keep |= {step for step in steps if step % self.config.keep_every_steps == 0}
        best = (self.run / BEST_NAME).resolve()
        for step in steps:
            path = self.folder / f"step_{step:07d}"
            if step not in keep and path.resolve() != best:
                _remove(path)

    def remove(self, step: int) -> None:
        """Remove the checkpoint of a step, if there is one. First rank only."""
        path = self.folder / f"step_{step:07d}"
        if path.exists():
            _remove(path)

    def steps(self) -> list[int]:
        """Steps of the checkpoints that are there, newest first."""
        matches = [_NAME.fullmatch(path.name) for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted((int(match[1]) for match in matches if match), reverse=True)

    def load_latest(self, state: Mapping[str, Tensor], vit: dict[str, Any]) -> dict[str, Any] | None:
        """Load the newest usable checkpoint into `state`; its description, or None when the run has none yet.

        One that is torn or of another architecture is named and passed over in favour of the one before.
        """
        steps: list[int] = self.world.first_says(self.steps() if self.world.is_first else None)
        for step in steps:
            path = self.folder / f"step_{step:07d}"
            fault = self.world.first_says(_fault(path, state, vit) if self.world.is_first else None)
            if fault is None:
                fault = self._load(path, state)
            if fault is None:
                description: dict[str, Any] = read_json(path / DESCRIPTION_NAME)
                return description
            if self.world.is_first:
                warn(f"the checkpoint {path} is passed over: {fault}.")
        if steps:
            raise UserError(
                f"none of the {len(steps)} checkpoints in {self.folder} can be used; "
                "restore one, or choose another run.dir to begin anew."
            )
        return None

    def _load(self, path: Path, state: Mapping[str, Tensor]) -> str | None:
        try:
            load(dict(state), storage_reader=SafeReader(path), process_group=self.world.control)
        except (CheckpointException, UserError, OSError, RuntimeError) as error:
            reason = _reason(error)
        else:
            reason = None
        reasons = [r for r in self.world.gather(reason) if r is not None]
        return f"it could not be read ({reasons[0]})" if reasons else None


def _fault(path: Path, state: Mapping[str, Tensor], vit: dict[str, Any]) -> str | None:
    """What is wrong with a checkpoint, as far as can be seen without reading its tensors."""
    try:
        description = read_json(path / DESCRIPTION_NAME)
        for name, size in description["files"].items():
            if not (path / name).is_file():
                return f"its file {name} is missing"
            if (path / name).stat().st_size != size:
                return f"its file {name} has {(path / name).stat().st_size} bytes instead of {size}"
        stored = SafeReader(path).read_metadata().state_dict_metadata
    except UserError as error:
        return str(error).rstrip(".")
    except (KeyError, TypeError, AttributeError):
        return f"its {DESCRIPTION_NAME} is not a checkpoint description"
    if description.get("vit") != vit:
        return "it is of another architecture"
    for name, tensor in state.items():
        item = stored.get(name)
        if not isinstance(item, TensorStorageMetadata) or item.size != tensor.shape:
            return f"it is of another architecture: its '{name}' is missing or has another shape"
    return None


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _reason(error: BaseException | None) -> str | None:
    """The first cause of an error, in one line."""
    if error is None:
        return None
    if isinstance(error, CheckpointException) and error.failures:
        error = next(iter(error.failures.values()))[0]
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return f"{type(error).__name__}: {error}".split("\n")[0]


def _remove(path: Path) -> None:
    """Remove a folder that others may be looking for: first its name, then what is in it."""
    hidden = path.with_name(f".{path.name}{TEMPORARY_MARK}removed")
    path.rename(hidden)
    shutil.rmtree(hidden)
