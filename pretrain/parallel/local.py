"""What this rank holds of a tensor."""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor


def local(tensor: Tensor) -> Tensor:
    """This rank's shard, or the tensor itself where it is not sharded. They share memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
