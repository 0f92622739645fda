"""MkDocs hook: a page for each command, made of the command's own declaration and the schema of its keys."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from panendofm.__main__ import GROUPS, Entry
from panendofm.runtime.command_line import Command, usage_of
from panendofm.runtime.config import keys_of


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The pages stand in the navigation behind what is written by hand."""
    section = next(part["Reference"] for part in config.nav or [] if "Reference" in part)
    section += [{title: [{f"{entry.name}": _path(entry)} for entry in entries]} for title, entries in GROUPS.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for entries in GROUPS.values():
        for entry in entries:
            files.append(File.generated(config, _path(entry), content="\n".join(_page(entry))))
    return files


def _path(entry: Entry) -> str:
    return f"reference/{entry.name}.md"


def _page(entry: Entry) -> Iterator[str]:
    stage = entry.stage()
    yield f"# {entry.name}"
    yield ""
    yield f"Which words and keys does `{stage.program}` take? It is for: {entry.purpose}."
    yield f"It needs the extra `{stage.extra}`."
    for command in stage.commands:
        yield ""
        yield from _command(stage.program, command)


def _command(program: str, command: Command) -> Iterator[str]:
    program = f"{program} {command.name}".strip()
    if command.name:
        yield f"## {command.name}"
        yield ""
    yield _sentence(command.summary)
    yield ""
    yield f"    {usage_of(program, command)}"
    yield ""
    if command.options is not None:
        yield from _table(("option", "what it means"), _options(command))
    schema = command.schema_class()
    if schema is not None:
        rows = [(f"`{key.name}`", _type(key.type, key.range), f"`{key.default}`", key.help) for key in keys_of(schema)]
        yield from _table(("key", "type", "default", "what it means"), rows)


def _options(command: Command) -> list[tuple[str, ...]]:
    parser = argparse.ArgumentParser(add_help=False)
    assert command.options is not None
    command.options(parser)
    return [(f"`{action.option_strings[0]}`", action.help or "") for action in parser._actions]


def _type(name: str, limits: str) -> str:
    return f"{name}, {limits}" if limits else name


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        cells = (cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."
