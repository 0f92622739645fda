"""What a run may be resumed with: what it began with. And its folder belongs to one process at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from panendofm.records.run import CheckpointInfo, RunFolder, RunInfo
from panendofm.records.shards import CorpusFrames
from panendofm.runtime.config import load_config, save_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory
from panendofm.runtime.locks import directory_lock
from pretrain.config import PretrainConfig, changed_key
from pretrain.data.order.order import ORDER_VERSION

# How long the processes of a run that was just killed may hold on to its folder.
_LOCK_WAIT_SECONDS = 30.0


@contextmanager
def run_lock(run: RunFolder) -> Iterator[None]:
    """Hold the run's folder; the leftovers of a run that was just killed get some time to let go of it."""
    make_directory(run.path)
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(directory_lock(run.path))
                break
            except UserError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
        yield


def refuse_changes(config: PretrainConfig, run: RunFolder) -> None:
    """A run that has begun goes on with the settings and the data order that it began with, or not at all."""
    if run.config.exists():
        key = changed_key(load_config(PretrainConfig, run.config), config)
        if key is not None:
            raise UserError(
                f"the run {run.path} can't go on exactly with another {key}; "
                "restore the key, or choose another run.dir for a new run."
            )
    info = run.read_info()
    version = 1 if info is None else info.order_version  # runs that keep no record of it had the first one
    if version != ORDER_VERSION:
        raise UserError(
            f"the run {run.path} began with version {version} of the data order and this program has version "
            f"{ORDER_VERSION}: it would see other samples; go on with the program that it began with, or start a new "
            f"run.dir from its weights (init.weights={run.path})."
        )


def refuse_other_shards(config: PretrainConfig, run: RunFolder, info: CheckpointInfo, shards_sha256: str) -> None:
    if info.shards_sha256 != shards_sha256:
        raise UserError(
            f"data.shards={config.data.shards} does not hold the samples that the run {run.path} began with; "
            "give it the same shards, or choose another run.dir."
        )


def refuse_other_weights(config: PretrainConfig, run: RunFolder, info: CheckpointInfo, sha256: str | None) -> None:
    if info.weights_sha256 != sha256:
        raise UserError(
            f"data.sampling_weights={config.data.sampling_weights} does not hold the weights that the run {run.path} "
            "began with; restore the file, or choose another run.dir."
        )


def refuse_other_teacher(config: PretrainConfig, run: RunFolder, info: CheckpointInfo, sha256: str | None) -> None:
    if info.teacher_sha256 != sha256:
        raise UserError(
            f"distill.teacher={config.distill.teacher} does not hold the weights that the run {run.path} began with; "
            "restore them, or choose another run.dir."
        )


def write_record(
    config: PretrainConfig, run: RunFolder, total_steps: int, patience_from_step: int, corpora: list[CorpusFrames]
) -> None:
    """What the next start compares with, and what others know of the run."""
    save_config(config, run.config)
    run.write_info(RunInfo(total_steps, ORDER_VERSION, patience_from_step, corpora))
