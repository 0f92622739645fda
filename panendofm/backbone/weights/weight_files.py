"""Reading tensors from a file that someone gave us, without running what else may be in it."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from panendofm.runtime.errors import UserError, naming_path

# What people wrap a state dict in, in the order in which it is looked for.
_WRAPPERS = ("model", "state_dict")
# How torch words its refusal of a function or class in a pickle (a file cut off in mid-name leaves no name there).
_NAMES_CODE = re.compile(r"unsupported (global: )?(global|class) \w", re.IGNORECASE)


def read_tensors(path: Path, role: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The backbone's tensors of a safetensors or torch file, and the file's text metadata.

    Wrappers (`{"model": …}`, `{"teacher": …}`) and prefixes (`teacher.backbone.`) are taken off; `role` says whose
    weights are wanted where a file holds both, "teacher" or "student".
    """
    if is_safetensors(path):
        tensors, metadata = _read_safetensors(path)
    else:
        tensors, metadata = _unwrap(_read_torch(path), role, path), {}
    return _without_prefixes(tensors, role), metadata


def refuse_non_finite(tensors: Mapping[str, Tensor], source: Path | str) -> None:
    """Weights that are not finite give features that are not, without any error."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise UserError(
                f"{source}: its tensor '{name}' holds values that are not finite (NaN or infinity); use other weights."
            )


def is_safetensors(path: Path) -> bool:
    """By content: a safetensors file begins with eight bytes of length and a JSON object."""
    with naming_path("read", path), path.open("rb") as stream:
        start = stream.read(9)
    return path.suffix == ".safetensors" or (len(start) == 9 and start[8:] == b"{" and not start.startswith(b"PK"))


def safetensors_metadata(path: Path) -> dict[str, str]:
    with naming_path("read", path), safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        return load_file(path), safetensors_metadata(path)
    except (SafetensorError, ValueError, RuntimeError, OSError, MemoryError) as error:
        # The header of a damaged file may say anything: of lengths, of kinds of numbers, of shapes.
        raise UserError(
            f"cannot read {path}: it is damaged or incomplete ({str(error).rstrip('.')}); get the file again."
        ) from error


def _read_torch(path: Path) -> Any:
    try:
        with naming_path("read", path), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")  # it is refused with our own words
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # It names a function or class, or it is a pickle in a protocol that torch doesn't write.
        if _NAMES_CODE.search(str(error)) or _is_foreign_pickle(path):
            raise UserError(
                f"refused to load {path}: it holds Python objects besides tensors, which can run any code when they "
                "are loaded; ask its author for a file of plain tensors (safetensors)."
            ) from error
        raise UserError(f"cannot read {path}: it is not a file of weights, or it is damaged; get it again.") from error
    except (UserError, KeyboardInterrupt):
        raise
    except Exception as error:
        # torch's unpickler takes any bytes for instructions: a cut-off or foreign file ends in any kind of error.
        raise UserError(
            f"cannot read {path}: it is damaged or incomplete, or not a file of weights; get the file again."
        ) from error


def _is_foreign_pickle(path: Path) -> bool:
    with path.open("rb") as stream:
        start = stream.read(2)
    return start[:1] == b"\x80" and start[1:] > b"\x02"  # torch writes protocol 2


def _unwrap(content: Any, role: str, path: Path) -> dict[str, Tensor]:
    while isinstance(content, dict):
        tensors = {name: value for name, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            if not all(isinstance(name, str) for name in tensors):
                raise UserError(f"{path}: its tensors are numbered, not named; get a file of a state dict.")
            return tensors
        inner = next((w for w in (role, *_WRAPPERS) if isinstance(content.get(w), dict)), None)
        if inner is None:
            names = ", ".join(f"'{name}'" for name in list(content)[:5]) or "nothing"
            raise UserError(
                f"{path}: no weights found in it (it holds {names}); expected tensors, or a 'model', 'state_dict' or "
                f"'{role}' entry with tensors."
            )
        content = content[inner]
    raise UserError(f"{path}: it holds a {type(content).__name__}, not weights by name.")


def _without_prefixes(tensors: dict[str, Tensor], role: str) -> dict[str, Tensor]:
    """Only the backbone's tensors, by their bare names. What lies beside a prefixed backbone (heads) is left out."""
    plain = {name.replace("_orig_mod.", "").removeprefix("module."): tensor for name, tensor in tensors.items()}
    for prefix in (f"{role}.backbone.", f"{role}.", "backbone.", "dinov2_with_registers.", "dinov2."):
        inside = {name.removeprefix(prefix): t for name, t in plain.items() if name.startswith(prefix)}
        if inside:
            plain = inside
    return plain
