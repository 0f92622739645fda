"""One rank of `test_sharded_ranks_give_the_numbers_of_one`: its rows, as lines of JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from launch.doctor.ranks import check_collectives, check_sharding, sharding_modes
from pretrain import joined_world
from pretrain.selftest import RunMetrics

if __name__ == "__main__":
    kind: Any = sys.argv[1]
    folder, shards = Path(sys.argv[2]), Path(sys.argv[3])
    if kind == "cpu":
        torch.set_num_threads(1)
    alone = RunMetrics(**json.loads((folder / "alone.json").read_text()))
    with joined_world(kind, 120) as world:
        rows = [*check_collectives(world), *check_sharding(world, folder, shards, alone, sharding_modes(world))]
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)
