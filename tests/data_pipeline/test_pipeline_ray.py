"""A Ray that the pipeline starts for itself keeps to a folder of its own, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import json, os, stat, tempfile
from pathlib import Path
from data_pipeline.cluster import ray_session, run_tasks
from data_pipeline.config import RayConfig

made, plain = [], tempfile.mkdtemp
tempfile.mkdtemp = lambda *words, **options: made.append(plain(*words, **options)) or made[-1]
with ray_session(RayConfig(workers=1)):
    (folder,) = [Path(path) for path in made if "/ray-" in path]
    assert list(folder.glob("session_*")), "this is where Ray works"
    mode = stat.S_IMODE(folder.stat().st_mode)
    assert [result for _, result in run_tasks(lambda x: -x, [(-3,)], 1, 0)] == [3]
    ((_, priority),) = run_tasks(lambda nothing: os.nice(nothing), [(0,)], 1, 0)
print(json.dumps({"private": mode == 0o700, "left": folder.exists(), "as_started": priority == os.nice(0)}))
"""


def test_its_folder_is_private_and_goes_with_it_and_tasks_have_their_share() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == '{"private": true, "left": false, "as_started": true}\n'
