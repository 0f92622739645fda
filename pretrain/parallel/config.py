"""The keys of `sharding`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.runtime.config import option


@dataclass
class ShardingConfig:
    """How parameters, gradients and optimizer state lie over the ranks. None of it changes the result."""

    mode: Literal["fsdp", "hsdp", "replicate"] = option(
        "fsdp: sharded over all ranks. hsdp: sharded within a node, replicated over nodes. replicate: a copy each.",
        "fsdp",
    )
    ranks_per_shard_group: int | None = option("hsdp: ranks that share one copy; null: those of a node.", None, low=1)
    param_type: Literal["float32", "bfloat16"] = option(
        "Type in which parameters are gathered and used; shards and gradient reduction are float32 always.", "float32"
    )
    reshard_after_forward: bool = option(
        "Free gathered blocks between forward and backward: less memory, more communication.", True
    )
