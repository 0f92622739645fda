"""One grammar for every stage: `python -m STAGE [VERB] ARGUMENT… [CONFIG.yaml] [key=value …] [--option …]`.

A stage's `__main__.py` lists its commands and calls `run_stage`. Words are told apart by their form: `key=value` is an
override, a name that ends in .yaml is the config, the rest are the command's own arguments.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from runtime.config import config_to_yaml, keys_of, load_config
from runtime.console import say
from runtime.errors import UserError, exit_code_of

# Names of corpora may hold hyphens; a word that begins with one is an option.
_OVERRIDE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*=")


@dataclass(frozen=True)
class Command:
    """One verb of a stage.

    `run` gets the parsed arguments and the config object (None without a schema). An argument whose name ends in "…"
    takes one or more words and arrives as a list; one in square brackets may be left out and is then None. `options`
    adds --flags to the parser. The resolved config is printed before `run` is called.
    """

    name: str
    summary: str
    run: Callable[[argparse.Namespace, Any], int | None]
    arguments: tuple[str, ...] = ()
    schema: type | None = None
    options: Callable[[argparse.ArgumentParser], None] | None = None


def run_stage(stage: str, commands: Sequence[Command], argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command that the words ask for and exit with its code. A stage with one nameless command has no verbs."""
    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(exit_code_of(lambda: _dispatch(stage, commands, words)))


def _dispatch(stage: str, commands: Sequence[Command], words: list[str]) -> int | None:
    by_name = {command.name: command for command in commands}
    two = " ".join(words[:2])
    if len(words) > 1 and two in by_name:  # a verb of two words, such as `dense predict`
        return _run(f"python -m {stage} {two}", by_name[two], words[2:])
    if "" in by_name and (not words or words[0] not in by_name):
        return _run(f"python -m {stage}", by_name[""], words)
    if not words or words[0] in ("-h", "--help"):
        print(_list_of_verbs(stage, commands))
        return 0 if words else 2
    if words[0] not in by_name:
        match = difflib.get_close_matches(words[0], by_name, n=1)
        hint = f"did you mean '{match[0]}'?" if match else f"there are: {', '.join(by_name)}."
        raise UserError(f"python -m {stage} has no verb '{words[0]}'; {hint}")
    return _run(f"python -m {stage} {words[0]}", by_name[words[0]], words[1:])


def _list_of_verbs(stage: str, commands: Sequence[Command]) -> str:
    width = max(len(command.name) for command in commands)
    lines = [f"  {command.name.ljust(width)}  {command.summary}" for command in commands]
    return "\n".join([f"usage: python -m {stage} VERB …", "", *lines, "", "VERB --help says more of each."])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}; '{self.prog} --help' lists what it takes.")


def _run(program: str, command: Command, words: list[str]) -> int | None:
    parser = _Parser(
        prog=program,
        description=command.summary,
        usage=_usage(program, command),
        epilog=_keys_help(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    if command.options is not None:
        command.options(parser)
    arguments = parser.parse_intermixed_args(words)
    rest: list[str] = arguments.words
    del arguments.words
    config: Any = None
    if command.schema is not None:
        overrides = [word for word in rest if _OVERRIDE.match(word)]
        files = [word for word in rest if word.endswith((".yaml", ".yml")) and word not in overrides]
        if len(files) > 1:
            raise UserError(f"{program}: two configs were given ({files[0]} and {files[1]}); name one.")
        rest = [word for word in rest if word not in overrides and word not in files]
        _bind(program, command, rest, arguments)
        config = load_config(command.schema, files[0] if files else None, overrides)
        say("resolved configuration:\n" + textwrap.indent(config_to_yaml(config).rstrip(), "  "))
    else:
        _bind(program, command, rest, arguments)
    return command.run(arguments, config)


def _usage(program: str, command: Command) -> str:
    config = " [CONFIG.yaml] [key=value …]" if command.schema is not None else ""
    flags = " [--option …]" if command.options is not None else ""
    return " ".join([program, *command.arguments]) + config + flags


def _keys_help(command: Command) -> str | None:
    if command.schema is None:
        return None
    lines = ["keys, in CONFIG.yaml or as key=value:"]
    for key in keys_of(command.schema):
        limits = f", {key.range}" if key.range else ""
        lines.append(f"  {key.name}  ({key.type}{limits}, {key.default})")
        lines.extend(textwrap.wrap(key.help, 110, initial_indent="      ", subsequent_indent="      "))
    return "\n".join(lines)


def _bind(program: str, command: Command, words: list[str], into: argparse.Namespace) -> None:
    """Give the words to the command's declared arguments, in order."""
    left = list(words)
    for declared in command.arguments:
        name = declared.strip("[]…").lower().replace("-", "_")
        if "…" in declared:
            if not left and not declared.startswith("["):
                raise UserError(f"{program}: {declared.strip('[]…')} is missing; usage: {_usage(program, command)}")
            setattr(into, name, left)
            left = []
        elif left:
            setattr(into, name, left.pop(0))
        elif declared.startswith("["):
            setattr(into, name, None)
        else:
            raise UserError(f"{program}: {declared} is missing; usage: {_usage(program, command)}")
    if left:
        raise UserError(f"{program}: '{left[0]}' was not expected; usage: {_usage(program, command)}")
