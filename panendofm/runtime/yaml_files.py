"""YAML as plain values, strictly: what YAML would settle silently is refused, and every mistake is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from panendofm.runtime.errors import UserError, naming_path


def read_yaml(path: Path | str, what: str = "the file") -> Any:
    """The values of a YAML file; `what` names it for the user: «the config»."""
    path = Path(path)
    with naming_path(f"read {what}", path):
        content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Any:
    """The values of a YAML text that stands at `source`."""
    try:
        return yaml.load(text, _StrictLoader)  # a safe loader
    except RecursionError:
        raise UserError(f"{source}: it is nested too deeply; write its values flatter.") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-99-99
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0] or "syntax error"
        raise UserError(f"{source}: not valid YAML{line} ({problem}).") from error


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML takes the last, and references, which may hold themselves."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key.value}' stands there twice; keep one", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"the reference *{event.anchor} is not supported; write its values out", event.start_mark
            )
        return super().compose_node(parent, index)
