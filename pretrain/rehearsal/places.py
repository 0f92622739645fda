"""Where in the project's own code something happened: what a fault is named with."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.utils.hooks import RemovableHandle

ROOT = Path(__file__).resolve().parent.parent.parent
_OWN = str(Path(__file__).resolve().parent)
_PACKAGES = tuple(str(ROOT / name) + "/" for name in ("pretrain", "panendofm", "eval_knn"))


@dataclass(frozen=True)
class Place:
    file: str  # below the project's root
    line: int
    function: str

    def __str__(self) -> str:
        text = linecache.getline(str(ROOT / self.file), self.line).strip()
        return f"{self.file}:{self.line} in {self.function}" + (f": {text}" if text else "")


UNKNOWN = Place("torch", 0, "unknown")


def present_place() -> Place:
    """The innermost line of the project that is being run; in a backward pass, the line whose gradient is computed."""
    place = _of_frames(sys._getframe(1))
    if place is None or is_backward_call(place):
        return _of_autograd_node() or place or UNKNOWN
    return place


def place_of(error: BaseException) -> Place:
    """The innermost line of the project in an error's traceback."""
    found = None
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None:
        found = _of_frame(traceback.tb_frame, traceback.tb_lineno) or found
        traceback = traceback.tb_next
    return found or UNKNOWN


def _of_frames(frame: FrameType | None) -> Place | None:
    while frame is not None:
        place = _of_frame(frame, frame.f_lineno)
        if place is not None:
            return place
        frame = frame.f_back
    return None


def _of_frame(frame: FrameType, line: int) -> Place | None:
    name = frame.f_code.co_filename
    if name.startswith(_PACKAGES) and not name.startswith(_OWN):
        return Place(str(Path(name).relative_to(ROOT)), line, frame.f_code.co_name)
    return None


def is_backward_call(place: Place) -> bool:
    return ".backward()" in linecache.getline(str(ROOT / place.file), place.line)


def _of_autograd_node() -> Place | None:
    """Where the forward pass made the node that is being differentiated; anomaly detection keeps that."""
    node: Any = torch._C._current_autograd_node()
    for entry in reversed(node.metadata.get("traceback_", []) if node is not None else []):
        # '  File "…/vit.py", line 12, in forward\n    …'
        parts = entry.strip().split("\n")[0].split('"')
        if len(parts) == 3 and parts[1].startswith(_PACKAGES) and not parts[1].startswith(_OWN):
            line, function = parts[2].removeprefix(", line ").split(", in ")
            return Place(str(Path(parts[1]).relative_to(ROOT)), int(line), function)
    return None


class Origins:
    """Where every parameter and buffer was made, for as long as this is entered."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, str], Place] = {}
        self._handles: list[RemovableHandle] = []

    def of(self, module: nn.Module, name: str) -> Place:
        return self._places.get((id(module), name), UNKNOWN)

    def of_name(self, network: nn.Module, name: str) -> Place:
        """The same by the name that a parameter has in a network."""
        prefix, _, own = name.rpartition(".")
        return self.of(network.get_submodule(prefix), own)

    def __enter__(self) -> Origins:
        self._handles = [
            register_module_parameter_registration_hook(self._remember),
            register_module_buffer_registration_hook(self._remember),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _remember(self, module: nn.Module, name: str, tensor: Any) -> None:
        self._places.setdefault((id(module), name), _of_frames(sys._getframe(1)) or UNKNOWN)
