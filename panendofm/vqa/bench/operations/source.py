"""What a dataset of operations is, and what it says of single frames: phase, step, action, instruments, regions."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import Label, Region, mask_components
from panendofm.imaging.images import is_image
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.images.annotation import Annotation

INSTRUMENTS = "surgical-instruments"  # category of regions that show a tool
_MIN_AREA_SHARE = 0.002  # smaller parts of a mask are seams between instruments


@dataclass(frozen=True)
class Moment:
    """One frame of an operation."""

    path: Path
    video: str
    annotation: Annotation
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True)
class OperationSource:
    """`reads` are the moments of a folder; `looks_like` says whether a folder is this dataset."""

    name: str
    title: str
    operation: str
    license: str
    looks_like: Callable[[Path], bool]
    read: Callable[[Path], Iterable[Moment]]
    real_files: bool = False  # whether the layout was tried on real files
    checked: str = ""
    notes: str = field(default="")


@cache
def operation_sources() -> tuple[OperationSource, ...]:
    from panendofm.vqa.bench import operations

    modules: Iterator[ModuleType] = (
        importlib.import_module(f"{operations.__name__}.{found.name}")
        for found in pkgutil.iter_modules(operations.__path__)
    )
    return tuple(module.SOURCE for module in modules if hasattr(module, "SOURCE"))


def source_of(folder: Path) -> OperationSource:
    if not folder.is_dir():
        raise UserError(f"operations: {folder} is no folder; check the path.")
    for source in operation_sources():
        if source.looks_like(folder):
            return source
    known = ", ".join(source.title for source in operation_sources())
    raise UserError(
        f"operations: {folder} has the layout of none of {known}; docs/how-to/vqa.md says how each must lie."
    )


def images_below(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and is_image(file)]


def instrument(name: str, operation: str) -> Label:
    return Label(operation, INSTRUMENTS, name)


def regions_of_mask(mask: NDArray[np.bool_], label: Label) -> list[Region]:
    return [
        Region(label, tuple(map(float, part.box)), part.polygon)  # type: ignore[arg-type]
        for part in mask_components(mask, _MIN_AREA_SHARE)
    ]


def as_annotation(operation: str, names: Sequence[str] | None, **known: str) -> Annotation:
    kinds = None if names is None else tuple(sorted(set(names)))
    return Annotation(operation, instruments=kinds, **known)
