"""Processes of the tests, forked from one that has imported what they need.

There is one server in a process, and what the first to use it asks for is all that it ever imports. So the list stands
here, and nowhere else: a rank starts in a tenth of a second then, instead of five or more seconds of a core.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

import torch.multiprocessing

PRELOADED = (
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch._dynamo",
    "pandas",  # pyarrow imports it with its first array
    "pretrain.train",
    "eval_knn.watch",
    "panendofm.backbone.feature_cache",
    "panendofm.vqa.commands",
)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(list(PRELOADED))
# Read when the server imports torch.
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def start(target: Callable[..., object], *args: Any) -> BaseProcess:
    process = _CONTEXT.Process(target=target, args=args)
    with mock.patch.dict(os.environ, _ONE_THREAD):
        process.start()
    return process


def pipe() -> Any:
    """Both ends of one for a process that `start` will start."""
    return _CONTEXT.Pipe()


def run_ranks(target: Callable[..., None], args: tuple[Any, ...], ranks: int) -> None:
    """`target(rank, *args)` in so many processes; the first error of one is raised here."""
    with mock.patch.dict(os.environ, _ONE_THREAD):
        torch.multiprocessing.start_processes(target, args, ranks, start_method="forkserver")


def run_module(
    module: str, *words: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """`python -m MODULE WORDS` as a process of its own, with this process's environment, or another one."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = (Path(folder) / "stdout", Path(folder) / "stderr")
        variables = dict(os.environ if environment is None else environment)
        process = start(
            _be_a_command, module, words, str(cwd or Path.cwd()), variables, [str(path) for path in outputs]
        )
        process.join()
        assert process.exitcode is not None
        said, complained = (path.read_text(encoding="utf-8") for path in outputs)
    return CompletedProcess((module, *words), process.exitcode, said, complained)


def _be_a_command(
    module: str, words: Sequence[str], cwd: str, environment: Mapping[str, str], outputs: Sequence[str]
) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv[1:] = words
    sys.path.insert(0, cwd)  # as `python -m` does
    runpy.run_module(module, run_name="__main__", alter_sys=True)
