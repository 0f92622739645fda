"""Plants faults in a copy of the project, one after the other, and runs `python -m launch rehearse` on each.

    python planted_faults.py COPY PLANTS.json WORD…

torch is imported once; every rehearsal is a fork, in which the project's own modules are imported anew.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

# What every rehearsal imports.
import cv2  # noqa: F401
import faiss  # noqa: F401
import matplotlib.figure  # noqa: F401
import omegaconf  # noqa: F401
import pyarrow.parquet  # noqa: F401
import sklearn.metrics  # noqa: F401
import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.tensor
import torch.testing._internal.distributed.fake_pg
import torch.utils.flop_counter  # noqa: F401
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: F401


def rehearse(copy: Path, words: list[str], output: Path) -> int:
    """The exit code of the command, run by a fork in the copy; what it says goes to a file."""
    child = os.fork()
    if child == 0:
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        from launch.__main__ import STAGE
        from panendofm.runtime.command_line import run_stage

        run_stage(STAGE, words)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    copy, plants, words = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), sys.argv[3:]
    for plant in plants:
        file = copy / plant["file"]
        healthy = file.read_text()
        file.write_text(plant["text"])
        output = copy / "said.txt"
        code = rehearse(copy, words, output)
        file.write_text(healthy)
        print(json.dumps({"name": plant["name"], "code": code, "said": output.read_text()}), flush=True)


if __name__ == "__main__":
    main()
