"""A stand-in for a stage on Ray: `python -m ray_stage FOLDER TASKS` writes the squares and where each was computed."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import ray

folder, count = Path(sys.argv[1]), int(sys.argv[2])
ray.init(log_to_driver=False)


@ray.remote(max_retries=-1, scheduling_strategy="SPREAD")
def square(number: int) -> tuple[int, str]:
    time.sleep(0.3)
    (folder / f"running_on_{ray.get_runtime_context().get_node_id()}").touch()
    return number * number, ray.get_runtime_context().get_node_id()


deadline = time.monotonic() + 60
while len([node for node in ray.nodes() if node["Alive"]]) < 2 and time.monotonic() < deadline:
    time.sleep(0.2)
results = ray.get([square.remote(number) for number in range(count)])
squares, nodes = zip(*results, strict=True)
alive = sum(node["Alive"] for node in ray.nodes())
content = {"squares": squares, "nodes": sorted(set(nodes)), "alive": alive, "address": os.environ["RAY_ADDRESS"]}
(folder / "result.json").write_text(json.dumps(content))
