"""A stand-in for a stage: counts steps, saves on request, and ends with the code that asks for a requeue.

    python -m counting_stage FOLDER STEPS [crash_at=N | user_error]

Each rank checkpoints its own counter after a USR2 or TERM. `trace.jsonl` gets one line for every go of every rank.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import launch

folder, total = Path(sys.argv[1]), int(sys.argv[2])
mode = sys.argv[3] if len(sys.argv) > 3 else ""
rank = os.environ.get("RANK", "0")
checkpoint = folder / f"counter_{rank}"
stop: list[int] = []
for number in (signal.SIGUSR2, signal.SIGTERM):
    signal.signal(number, lambda got, frame: stop.append(got))
# Of the whole job, not of this rank: one that was ended while it started has no counter of its own yet.
first_go = not any(folder.glob("counter_*"))
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
first = step
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_NODELIST")
names += ("CUDA_VISIBLE_DEVICES", "SLURM_NODEID")


def trace(**what: object) -> None:
    line = {"first": first, "env": {name: os.environ.get(name) for name in names}, **what}
    with (folder / "trace.jsonl").open("a") as stream:
        stream.write(json.dumps(line) + "\n")


if mode == "user_error":
    if rank != "0":  # still busy starting when rank 0 ends, and not yet ready for signals
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(60)
    print("error: the file x is missing; make it.", file=sys.stderr)
    sys.exit(2)
print(f"rank {rank} starts at {step}", flush=True)
namespace = str(Path("/proc/self/ns/mnt").readlink())
trace(event="start", code=str(Path(launch.__file__).parent.parent), cwd=str(Path.cwd()), namespace=namespace)
while step < total:
    if stop:
        checkpoint.write_text(str(step))
        trace(event="saved", step=step, signal=stop[0])
        sys.exit(75)
    time.sleep(0.1)
    step += 1
    if mode == f"crash_at={step}" and first_go:
        checkpoint.write_text(str(step))
        raise RuntimeError(f"crashed at {step}")
checkpoint.write_text(str(step))
trace(event="done", step=step)
