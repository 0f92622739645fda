"""Looks at every operation of a rehearsed step: what would fail or wait on a GPU, and what travels between ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from pretrain.rehearsal.places import Place, is_backward_call, present_place

# Where the host may wait for the device: the results of logged steps, metrics of a collapse, and the start of a run.
MAY_WAIT = {
    ("pretrain/optimizer/step.py", "read_results"),
    ("pretrain/monitoring/health.py", "collapse_metrics"),
    ("pretrain/monitoring/health.py", "_prototype_metrics"),
    ("pretrain/build.py", "_take_shards"),
    ("pretrain/build.py", "_refuse_missed_weights"),
    ("pretrain/run/checkpoints.py", "stage"),
}
# Where float64 is meant: a handful of sums per step.
MAY_USE_FLOAT64 = {("pretrain/optimizer/step.py", "_agree"), ("pretrain/optimizer/step.py", "read_results")}
# Matrix products in float32 beyond this share of a bfloat16 run's work are a mistake and not a loss's last digits.
FLOAT32_SHARE = 0.02
_READS = {"aten._local_scalar_dense", "aten.equal", "aten.is_nonzero"}
_SHAPES_FROM_DATA = {
    "aten.nonzero",
    "aten.masked_select",
    "aten._unique2",
    "aten.unique_dim",
    "aten.unique_consecutive",
}
_COLLECTIVES = {
    "c10d.allreduce_": "all-reduce",
    "c10d._allgather_base_": "all-gather",
    "c10d.allgather_": "all-gather",
    "c10d._reduce_scatter_base_": "reduce-scatter",
    "c10d.broadcast_": "broadcast",
    "_c10d_functional.all_reduce": "all-reduce",
    "_c10d_functional.all_gather_into_tensor": "all-gather",
    "_c10d_functional.reduce_scatter_tensor": "reduce-scatter",
}
_NEUTRAL = ("c10d.", "_c10d_functional.wait_tensor")


class RehearsalError(Exception):
    """Something that would fail, wait or hang on a GPU."""

    def __init__(self, what: str, place: Place) -> None:
        super().__init__(f"{what}: {place}")
        self.what = what
        self.place = place

    def __reduce__(self) -> tuple[type[RehearsalError], tuple[str, Place]]:
        return RehearsalError, (self.what, self.place)

    @property
    def is_in_backward(self) -> bool:
        """Whether the place is only the call of the backward pass."""
        return is_backward_call(self.place)


@dataclass(frozen=True)
class Collective:
    kind: str
    ranks: int  # of its group
    bytes: int  # of the whole tensor: gathered, before it is scattered, reduced
    place: Place

    def matches(self, other: Collective) -> bool:
        return (self.kind, self.ranks, self.bytes) == (other.kind, other.ranks, other.bytes)

    def __str__(self) -> str:
        return f"{self.kind} of {self.bytes:,} bytes over {self.ranks} ranks"


class Watcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operations are passed on; a fault ends the rehearsal with its place."""

    def __init__(self, device: torch.device, half: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device
        self.half = half  # whether matrix products are to be bfloat16
        self.collectives: list[Collective] = []
        self.flops: Counter[tuple[torch.dtype, Place]] = Counter()
        self.operations = 0
        self._may_wait = False

    @contextmanager
    def host_may_wait(self) -> Iterator[None]:
        """Before the first step and between runs nobody minds."""
        self._may_wait = True
        try:
            yield
        finally:
            self._may_wait = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it becomes operations on shards, and collectives; those come by here
        kwargs = kwargs or {}
        self.operations += 1
        name = str(function.overloadpacket)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if name in _READS and any(self._is_here(tensor) for tensor in tensors):
            return self._read(function, tensors[0])
        if name in _SHAPES_FROM_DATA and any(self._is_here(tensor) for tensor in tensors):
            raise RehearsalError("the host waits for a shape that depends on the device's data", present_place())
        if name in _COLLECTIVES:
            self._count(name, args, tensors)
        try:
            result = function(*args, **kwargs)
        except RehearsalError:
            raise
        except Exception as error:
            raise RehearsalError(f"{name} fails ({_first_line(error)})", present_place()) from error
        self._look_at(name, function, args, kwargs, tensors, result)
        return result

    def _is_here(self, tensor: Tensor) -> bool:
        return tensor.device.type == self.device.type

    def _read(self, function: Any, tensor: Tensor) -> Any:
        place = present_place()
        if not self._may_wait and (place.file, place.function) not in MAY_WAIT:
            raise RehearsalError("the host waits for a number of the device", place)
        # A tensor without content has no number to give.
        return 0.0 if tensor.is_floating_point() else 0

    def _look_at(
        self, name: str, function: Any, args: Any, kwargs: dict[str, Any], tensors: list[Tensor], result: Any
    ) -> None:
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        for output in outputs:
            if output.is_meta and not self._may_wait and any(self._is_here(tensor) for tensor in tensors):
                raise RehearsalError(f"{name} meets a tensor on meta, which has no memory", present_place())
            if output.dtype == torch.float64 and self._is_here(output) and not name.startswith(_NEUTRAL):
                place = present_place()
                if not self._may_wait and (place.file, place.function) not in MAY_USE_FLOAT64:
                    raise RehearsalError(f"{name} computes in float64 on the device", place)
        if name in ("aten._to_copy", "aten.copy_", "aten.copy"):
            self._look_at_copy(tensors, outputs, kwargs, args)
        if self.half and function.overloadpacket in flop_registry:
            formula: Callable[..., int] = flop_registry[function.overloadpacket]
            self.flops[tensors[0].dtype, present_place()] += formula(*args, **kwargs, out_val=result)

    def _look_at_copy(self, tensors: list[Tensor], outputs: list[Tensor], kwargs: dict[str, Any], args: Any) -> None:
        """A copy between host and device for which the host waits."""
        if self.device.type == "cpu" or self._may_wait:
            return
        source = tensors[-1] if len(tensors) > 1 else tensors[0]
        if source.numel() == 0:
            return  # nothing travels
        crosses = {source.device.type, outputs[0].device.type} == {"cpu", self.device.type}
        asks_not_to = kwargs.get("non_blocking") or (len(args) > 2 and args[2] is True)
        on_host = source if source.device.type == "cpu" else outputs[0]
        if crosses and not (asks_not_to and on_host.is_pinned()):
            place = present_place()
            if (place.file, place.function) not in MAY_WAIT:
                raise RehearsalError("the host waits for a copy between its memory and the device's", place)

    def _count(self, name: str, args: Any, tensors: list[Tensor]) -> None:
        groups = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.ScriptObject)]
        ranks = next((size for size in map(_group_size, groups) if size), dist.get_world_size())
        if name.startswith("_c10d_functional"):
            ranks = next((leaf for leaf in reversed(args) if isinstance(leaf, int)), ranks)
        largest = max(tensor.nbytes for tensor in tensors) if tensors else 0
        if name.endswith(("allgather_", "functional.all_gather_into_tensor")):
            largest = min(tensor.nbytes for tensor in tensors) * ranks
        self.collectives.append(Collective(_COLLECTIVES[name], ranks, largest, present_place()))

    def refuse_uncovered_products(self) -> None:
        """Products that run in float32 though the config asks for bfloat16: what autocast did not cover."""
        total = sum(self.flops.values())
        for (number_type, place), work in self.flops.most_common():
            if number_type == torch.float32 and work > FLOAT32_SHARE * total:
                share = f"{work / total:.0%} of a step's matrix products"
                raise RehearsalError(f"{share} run in float32, though objective.compute_type is bfloat16", place)


def _group_size(group: Any) -> int | None:
    try:
        return int(dist.ProcessGroup.unbox(group).size())
    except (RuntimeError, TypeError):
        return None  # a reduce operation


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
