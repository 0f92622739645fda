"""A Ray that the pipeline starts for itself keeps to a folder of its own, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import json, os, stat
from pathlib import Path
from data_pipeline.cluster import ray_session, run_tasks
from data_pipeline.config import RayConfig

before = {*Path("/tmp").glob("ray*"), *Path("/tmp/ray").glob("session*")}
with ray_session(RayConfig(workers=1)) as cores:
    new = {*Path("/tmp").glob("ray*"), *Path("/tmp/ray").glob("session*")} - before
    modes = [stat.S_IMODE(path.stat().st_mode) for path in new if path.stat().st_uid == os.getuid()]
    assert [result for _, result in run_tasks(lambda x: -x, [(-3,)], 1, 0)] == [3]
own = [path for path in new if path.exists()]
print(json.dumps({"folders": len(new), "modes": modes, "left": len(own)}))
"""


def test_rays_folder_is_private_and_goes_with_it() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert '"left": 0' in done.stdout and '"modes": [448]' in done.stdout, done.stdout  # 0o700
