"""JSON files as typed objects: a file that does not have the form is noticed when it is read, and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import write_json

T = TypeVar("T")
# For fields of files that others may have written: JSON readers take NaN, infinity and negative numbers too.
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**15)]

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once a type: that takes a hundred times as long as reading a file."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def read_document(kind: type[T], path: Path | str, what: str, remedy: str = "restore the file") -> T:
    """The object of a dataclass that `write_document` has stored. `what` names it for the user: «a kNN result»."""
    with naming_path("read", path):
        content = Path(path).read_bytes()
    try:
        document: T = _adapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        fault = _first_fault(error)
        raise UserError(f"cannot read {path}: it is not {what} of this version ({fault}); {remedy}.") from error
    return document


def parse_document(kind: type[T], values: Any, source: Path | str, what: str) -> T:
    """The same from plain values that stand inside another document."""
    try:
        document: T = _adapter(kind).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise UserError(f"cannot read {source}: it does not hold {what} ({_first_fault(error)}).") from error
    except RecursionError:
        raise UserError(f"cannot read {source}: it is nested too deeply.") from None
    return document


def as_document(value: Any) -> Any:
    """A dataclass object as plain values for JSON."""
    return _adapter(type(value)).dump_python(value, mode="json")


def write_document(path: Path | str, value: Any) -> None:
    write_json(path, as_document(value))


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"'{place}': {first['msg']}" if place else str(first["msg"])
