"""Typed configuration: a dataclass is the schema, YAML gives the values, `key=value` words override them.

A component keeps its config class beside its code:

    @dataclass
    class LoaderConfig:
        shards: str = required("Folder of WebDataset shards.")
        batch_size: int = option("Images per optimizer step, over all ranks.", 1024)

Numbers have their range beside them: `option("…", 0.9, low=0, below=1)`. NaN and infinity are never accepted.

A YAML file may build on another one with `extends: other.yaml` (relative to itself). A config class may have a method
`check(self)` that raises `UserError` for values that contradict each other.
"""

from __future__ import annotations

import copy
import difflib
import math
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text
from panendofm.runtime.yaml_files import read_yaml

T = TypeVar("T")

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
COMMAND_LINE = "command line"
# OmegaConf would put in environment variables and the like: secrets, which then are printed and stored with the config.
_RESOLVER = re.compile(r"\$\{[^}]*:")
_ACCEPTED: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), str: (str,), bool: (bool,)}


@dataclass(frozen=True)
class Range:
    """Which numbers a field takes; `above` and `below` leave out the limit itself."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        limits = {"at least": self.low, "above": self.above, "at most": self.high, "below": self.below}
        said = [f"{word} {limit:g}" for word, limit in limits.items() if limit is not None]
        return " and ".join(said) or "a finite number"


def option(
    help: str,
    default: T,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    was: str | None = None,
) -> T:
    """A config field with its one-line explanation, default and, for numbers (also in lists), their range.

    `was`: an earlier name of the key, which is still read, with a warning.
    """
    metadata = {"help": help, "range": Range(low, high, above, below), "was": was}
    if isinstance(default, list | dict) or is_dataclass(default):
        return typing.cast(T, field(default_factory=lambda: copy.deepcopy(default), metadata=metadata))
    return field(default=default, metadata=metadata)


def required(help: str) -> Any:
    """A config field that the user must set."""
    return field(default=MISSING, metadata={"help": help, "range": Range()})


@dataclass(frozen=True)
class Key:
    """One line of a schema's documentation."""

    name: str
    type: str
    default: str
    help: str
    range: str  # empty where any value will do


def keys_of(schema: type, prefix: str = "") -> Iterator[Key]:
    """Every key of a schema with its type, default and explanation, nested ones by their dotted name."""
    hints = typing.get_type_hints(schema)
    for item in fields(schema):
        name, hint = prefix + item.name, hints[item.name]
        section = _section_type(hint)
        if section is not None:
            yield from keys_of(section, name + ".")
            continue
        limits: Range = item.metadata.get("range", Range())
        said = str(limits) if limits != Range() else ""
        yield Key(name, _type_name(hint), _default_text(item), str(item.metadata.get("help", "")), said)
        inner = _item_type(hint)
        if inner is not None:
            yield from keys_of(inner, name + "[].")


def _type_name(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "|".join(str(a) for a in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(a) for a in arguments)
    if hint is type(None):
        return "null"
    if origin is not None:
        return f"{origin.__name__}[{', '.join('…' if a is Ellipsis else _type_name(a) for a in arguments)}]"
    return getattr(hint, "__name__", str(hint))


def _default_text(item: Any) -> str:
    if item.default == MISSING:
        return "required"
    value = item.default_factory() if callable(item.default_factory) else item.default
    if is_dataclass(value) or (isinstance(value, list | dict) and value and is_dataclass(next(iter(value)))):
        return "…"
    return yaml.safe_dump(value, default_flow_style=True, width=1000).replace("\n...", "").strip()


def _section_type(hint: Any) -> type | None:
    """The config class of a nested section, `SomeConfig` or `SomeConfig | None`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next((a for a in typing.get_args(hint) if is_dataclass(a)), hint)
    return hint if isinstance(hint, type) and is_dataclass(hint) else None


def _item_type(hint: Any) -> type | None:
    """The config class in `list[SomeConfig]` or `dict[str, SomeConfig]`."""
    if typing.get_origin(hint) not in (list, dict):
        return None
    return _section_type(typing.get_args(hint)[-1])


def load_config(schema: type[T], path: Path | str | None = None, overrides: list[str] | None = None) -> T:
    """A config object from a YAML file and `key=value` overrides. Every mistake is a `UserError` of one sentence."""
    layers: list[tuple[str, dict[str, Any]]] = _read_with_bases(_shipped(Path(path)), ()) if path is not None else []
    for override in overrides or []:
        layers.append((COMMAND_LINE, _parse_override(schema, override)))
    config = OmegaConf.structured(schema)
    for source, values in layers:
        values = _with_new_names(source, schema, values, "")
        _refuse_unknown_keys(source, schema, schema, values, "")
        _refuse_odd_text(source, schema, values, "")
        try:
            config = OmegaConf.unsafe_merge(config, values)  # in place; `merge` copies everything for every word
        except OmegaConfBaseException as error:
            raise UserError(f"{source}: {_type_mistake(schema, error)}") from error
        except RecursionError:
            raise UserError(f"{source}: its values are nested too deeply.") from None
        except TypeError as error:  # a list where a section belongs, or the other way round
            raise UserError(f"{source}: a list stands where values by name belong, or the other way round.") from error
    source = str(path) if path is not None else COMMAND_LINE
    try:
        missing = sorted(OmegaConf.missing_keys(config))
    except OmegaConfBaseException as error:  # ${…} that leads nowhere, or to itself
        raise UserError(f"{source}: {_type_mistake(schema, error)}") from error
    if missing:
        described = {key.name: key.help for key in keys_of(schema)}
        help_text = described.get(missing[0], "").rstrip(".")
        more = f" (and of {', '.join(missing[1:4])})" if len(missing) > 1 else ""
        raise UserError(
            f"{source}: the key '{missing[0]}' has no value ({help_text}); "
            f"give it in the file or as {missing[0]}=… on the command line{more}."
        )
    try:
        result = typing.cast(T, OmegaConf.to_object(config))
    except OmegaConfBaseException as error:
        raise UserError(f"{source}: {_type_mistake(schema, error)}") from error
    except RecursionError:
        raise UserError(f"{source}: a value refers to itself by ${{…}}; write it out.") from None
    check_config(result, source)
    return result


def check_config(config: Any, source: str = COMMAND_LINE) -> None:
    """Raise for numbers out of their range and values that contradict each other, of a config object made by hand."""
    _check_items(config, source, "")
    _check_ranges(config, source, "")
    _check(config)


def _check(config: Any) -> None:
    check = getattr(config, "check", None)
    if callable(check):
        check()
    for item in fields(config):
        for _, inner in _values_in(getattr(config, item.name)):
            if is_dataclass(inner):
                _check(inner)


def _check_items(config: Any, source: str, prefix: str) -> None:
    """What stands in lists and mappings of plain values: OmegaConf lets a mapping pass for a number there."""
    hints = typing.get_type_hints(type(config))
    for item in fields(config):
        wanted = typing.get_args(hints[item.name])[-1:] if typing.get_origin(hints[item.name]) in (list, dict) else ()
        for place, value in _values_in(getattr(config, item.name)):
            name = f"{prefix}{item.name}{place}"
            if is_dataclass(value):
                _check_items(value, source, f"{name}.")
            elif wanted and wanted[0] in (int, float, str, bool) and not isinstance(value, _ACCEPTED[wanted[0]]):
                raise UserError(f"{source}: '{name}' is {value!r}, but must be {wanted[0].__name__}.")


def _check_ranges(config: Any, source: str, prefix: str) -> None:
    """All of them before any `check`, which may compute with the values."""
    for item in fields(config):
        limits: Range = item.metadata.get("range", Range())
        for place, value in _values_in(getattr(config, item.name)):
            name = f"{prefix}{item.name}{place}"
            if is_dataclass(value):
                _check_ranges(value, source, f"{name}.")
            elif isinstance(value, int | float) and not isinstance(value, bool) and not limits.holds(value):
                raise UserError(f"{source}: '{name}' is {value}, but must be {limits}.")


def _values_in(value: Any) -> list[tuple[str, Any]]:
    """A value, or those of a list or mapping with their places."""
    if isinstance(value, list | tuple):
        return [(f"[{number}]", inner) for number, inner in enumerate(value)]
    if isinstance(value, dict):
        return [(f".{name}", inner) for name, inner in value.items()]
    return [("", value)]


def config_to_yaml(config: Any) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal object."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def save_config(config: Any, path: Path | str) -> None:
    write_text(path, config_to_yaml(config))


def _shipped(path: Path) -> Path:
    """`configs/…` means the files that come with the package, wherever a command is typed."""
    shipped = CONFIGS.parent / path
    return shipped if path.parts[:1] == (CONFIGS.name,) and not path.exists() and shipped.is_file() else path


def _read_with_bases(path: Path, seen: tuple[Path, ...]) -> list[tuple[str, dict[str, Any]]]:
    if not path.is_file():
        raise UserError(f"cannot read the config {path}: it does not exist; {_nearest_file(path)}")
    if path.resolve() in seen:
        raise UserError(f"{path}: 'extends' goes in a circle; remove one of the links.")
    values = read_yaml(path, "the config")
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise UserError(f"{path}: a config is a mapping of keys to values, this file holds a {type(values).__name__}.")
    base = values.pop("extends", None)
    below = _read_with_bases(path.parent / str(base), (*seen, path.resolve())) if base is not None else []
    return [*below, (str(path), values)]


def _nearest_file(path: Path) -> str:
    siblings = [p.name for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
    match = difflib.get_close_matches(path.name, siblings, n=1)
    return f"did you mean {path.parent / match[0]}?" if match else "check the path."


def _parse_override(schema: type, text: str) -> dict[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UserError(f"{COMMAND_LINE}: '{text}' is not of the form key=value.")
    try:
        parsed = yaml.safe_load(value) if value else ""
    except yaml.YAMLError:
        parsed = value  # text with YAML's own signs in it, such as a path with a colon
    places = name.split(".")
    if parsed is not None and not isinstance(parsed, str) and _takes_text(schema, places):
        parsed = value  # run=01 and date=2026-01-02 are text: not the number 1, nor a date
    for part in reversed(places):
        parsed = {part: parsed}
    return typing.cast(dict[str, Any], parsed)


def _takes_text(schema: type, places: list[str]) -> bool:
    """Whether a key is declared as text, `str` or `str | None`."""
    hint: Any = schema
    for place in places:
        section = _section_type(hint)
        hint = typing.get_type_hints(section).get(place) if section is not None else None
    return hint is str or (typing.get_origin(hint) in (typing.Union, types.UnionType) and str in typing.get_args(hint))


def _with_new_names(source: str, schema: type, values: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The values under today's names: a key that was renamed is read under its old name too, with a warning."""
    hints = typing.get_type_hints(schema)
    renamed = {item.metadata["was"]: item.name for item in fields(schema) if item.metadata.get("was")}
    result: dict[str, Any] = {}
    for name, value in values.items():
        new = renamed.get(name, name)
        if new != name:
            if new in values:
                raise UserError(f"{source}: '{prefix}{name}' and '{prefix}{new}' are the same key; remove the first.")
            warn(f"{source}: the key '{prefix}{name}' is called '{prefix}{new}' now; please rename it.")
        section = _section_type(hints[new]) if new in hints else None
        if section is not None and isinstance(value, dict):
            value = _with_new_names(source, section, value, f"{prefix}{new}.")
        inner = _item_type(hints[new]) if new in hints else None
        if inner is not None and isinstance(value, dict):
            value = {
                key: _with_new_names(source, inner, item, f"{prefix}{new}.{key}.") if isinstance(item, dict) else item
                for key, item in value.items()
            }
        result[new] = value
    return result


def _refuse_unknown_keys(source: str, root: type, schema: type, values: dict[str, Any], prefix: str) -> None:
    hints = typing.get_type_hints(schema)
    for name, value in values.items():
        if name not in hints:
            raise UserError(f"{source}: unknown key '{prefix}{name}'; {_nearest_key(root, schema, prefix, str(name))}")
        section, inner = _section_type(hints[name]), _item_type(hints[name])
        if section is not None and isinstance(value, dict):
            _refuse_unknown_keys(source, root, section, value, f"{prefix}{name}.")
        elif section is not None and value is not None:
            inside = ", ".join(f"{prefix}{name}.{item.name}" for item in fields(section))
            raise UserError(f"{source}: '{prefix}{name}' is a section, not a value; set its keys: {inside}.")
        if inner is not None:
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for index, item in items:
                if isinstance(item, dict):
                    _refuse_unknown_keys(source, root, inner, item, f"{prefix}{name}.{index}.")


def _refuse_odd_text(source: str, schema: type, values: dict[str, Any], prefix: str) -> None:
    """Texts that nothing can be called, and `no`, `on` or `yes` where text belongs: YAML reads them as truth values."""
    hints = typing.get_type_hints(schema)
    for name, value in values.items():
        place = f"{prefix}{name}"
        section = _section_type(hints[name])
        if section is not None and isinstance(value, dict):
            _refuse_odd_text(source, section, value, f"{place}.")
        elif isinstance(value, bool) and _takes_text(schema, [name]) and bool not in typing.get_args(hints[name]):
            word = "yes, on or true" if value else "no, off or false"
            raise UserError(f"{source}: '{place}' is text, and YAML reads {word} as a truth value; put it in quotes.")
        for _, inner in _values_in(value):
            if isinstance(inner, str) and "\0" in inner:
                raise UserError(f"{source}: '{place}' holds a NUL character, which no text here may; remove it.")
            if isinstance(inner, str) and _RESOLVER.search(inner):
                raise UserError(
                    f"{source}: '{place}' asks for a value from outside (${{name:…}}), such as an environment "
                    "variable; write the value itself, or ${key} for another key of the file."
                )


def _nearest_key(root: type, schema: type, prefix: str, name: str) -> str:
    here = [item.name for item in fields(schema)]
    match = difflib.get_close_matches(name, here, n=1)
    if match:
        return f"did you mean '{prefix}{match[0]}'?"
    everywhere = [key.name for key in keys_of(root) if "[]" not in key.name]
    match = [k for k in everywhere if k.rsplit(".", 1)[-1] == name]
    match = match or difflib.get_close_matches(prefix + name, everywhere, n=1, cutoff=0.7)
    if match:
        return f"did you mean '{match[0]}'?"
    return f"valid here: {', '.join(here)}."


def _type_mistake(schema: type, error: OmegaConfBaseException) -> str:
    key = str(error.full_key or "")
    first_line = str(error).splitlines()[0].rstrip(".")
    if isinstance(error, ConfigKeyError):
        return f"{first_line}."
    expected = {item.name: item.type for item in keys_of(schema)}.get(key)
    wanted = f" must be {expected}" if expected else " has a wrong value"
    return f"the key '{key}'{wanted}: {first_line}."
