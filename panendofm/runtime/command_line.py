"""One grammar for every stage: `STAGE [VERB] ARGUMENT… [CONFIG.yaml] [key=value …] [--option …]`.

A stage's `__main__.py` describes itself as a `Stage` and calls `run_stage`. Words are told apart by their form:
`key=value` is an override, a name that ends in .yaml is the config, the rest are the command's own arguments.

Modules that list commands import nothing heavy: handlers and schemas are named by their place, "module:name", and
imported when they are asked for, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from panendofm.runtime.config import config_to_yaml, keys_of, load_config
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError, exit_code_of
from panendofm.runtime.names import hint

# Names of corpora may hold hyphens; a word that begins with one is an option.
_OVERRIDE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*=")
_OWN_PACKAGES = ("data_pipeline", "eval_knn", "launch", "panendofm", "pretrain")


Handler = Callable[..., object]


@dataclass(frozen=True)
class Command:
    """One verb of a stage.

    `run` gets the words in the order of `arguments`, then the config object where there is a schema, and the --flags by
    their names. What it returns is the exit code if it is a number. A word whose parameter says Path arrives as one. An
    argument whose name ends in "…" takes one or more words and arrives as a list; one in square brackets may be left
    out and is then None. `options` adds --flags to the parser. `run` and `schema` may be given as their place,
    "module:name". The resolved config is printed before `run` is called, unless `show_config` is off: for commands
    whose output others read.
    """

    name: str
    summary: str
    run: Handler | str
    arguments: tuple[str, ...] = ()
    schema: type | str | None = None
    options: Callable[[argparse.ArgumentParser], None] | None = None
    show_config: bool = True

    def handler(self) -> Handler:
        return cast(Handler, pkgutil.resolve_name(self.run)) if isinstance(self.run, str) else self.run

    def schema_class(self) -> type | None:
        return cast(type, pkgutil.resolve_name(self.schema)) if isinstance(self.schema, str) else self.schema


# Verb, what it does, where its handler stands, its arguments, and where its keys do (empty: it has none).
Row = tuple[str, str, str, tuple[str, ...], str]


def verbs(package: str, *rows: Row) -> tuple[Command, ...]:
    """Commands as a table; places are below the package."""
    return tuple(
        Command(name, summary, f"{package}.{run}", arguments, f"{package}.{schema}" if schema else None)
        for name, summary, run, arguments, schema in rows
    )


@dataclass(frozen=True)
class Stage:
    """The commands behind one program, such as `python -m pretrain` or `panendofm vqa`.

    A nameless command is what the program does without a verb. `extra` is the group of dependencies that it needs.
    """

    program: str
    commands: Sequence[Command]
    extra: str


def run_stage(stage: Stage, argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command that the words ask for and exit with its code."""
    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(exit_code_of(lambda: _dispatch(stage, words)))


def _dispatch(stage: Stage, words: list[str]) -> int | None:
    try:
        return _dispatch_verb(stage, words)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if not package or package in _OWN_PACKAGES:
            raise
        raise UserError(
            f"{stage.program} needs the package '{package}', which is not installed; install what it needs with: "
            f"pip install 'panendofm[{stage.extra}]'"
        ) from error


def _dispatch_verb(stage: Stage, words: list[str]) -> int | None:
    by_name = {command.name: command for command in stage.commands}
    if words and words[0] and words[0] in by_name:
        return _run(f"{stage.program} {words[0]}", by_name[words[0]], words[1:])
    if "" in by_name:
        verbs = [command for command in stage.commands if command.name]
        return _run(stage.program, by_name[""], words, verbs)
    if not words or words[0] in ("-h", "--help"):
        print(_list_of_verbs(stage))
        return 0 if words else 2
    raise UserError(f"{stage.program} has no verb '{words[0]}'; {hint(words[0], by_name)}")


def _list_of_verbs(stage: Stage) -> str:
    lines = _summaries(stage.commands)
    return "\n".join([f"usage: {stage.program} VERB …", "", *lines, "", "VERB --help says more of each."])


def _summaries(commands: Sequence[Command]) -> list[str]:
    width = max(len(command.name) for command in commands)
    return [f"  {command.name.ljust(width)}  {command.summary}" for command in commands]


class _Parser(argparse.ArgumentParser):
    keys: frozenset[str] = frozenset()

    def error(self, message: str) -> NoReturn:
        for option, value in re.findall(r"--([\w.-]+)=?(\S*)", message):
            key = option.replace("-", "_")
            if key in self.keys:  # most programs write `--out DIR`
                raise UserError(f"{self.prog}: write {key}={value or 'VALUE'} instead of --{option}.")
        raise UserError(f"{self.prog}: {message}; '{self.prog} --help' lists what it takes.")


def _run(program: str, command: Command, words: list[str], verbs: Sequence[Command] = ()) -> int | None:
    schema = command.schema_class()
    parser = _Parser(
        prog=program,
        description=command.summary,
        usage=usage_of(program, command),
        epilog=_epilog(schema, verbs),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.keys = frozenset(key.name for key in keys_of(schema)) if schema is not None else frozenset()
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    if command.options is not None:
        command.options(parser)
    arguments = parser.parse_intermixed_args(words)
    rest: list[str] = arguments.words
    del arguments.words
    if schema is not None:
        overrides = [word for word in rest if _OVERRIDE.match(word)]
        files = [word for word in rest if _names_a_config(word) and word not in overrides]
        if len(files) > 1:
            raise UserError(f"{program}: two configs were given ({files[0]} and {files[1]}); name one.")
        rest = [word for word in rest if word not in overrides and word not in files]
        handed = _bind(program, command, rest)
        config: Any = load_config(schema, files[0] if files else None, overrides)
        if command.show_config:
            say("resolved configuration:\n" + textwrap.indent(config_to_yaml(config).rstrip(), "  "))
        handed.append(config)
    else:
        handed = _bind(program, command, rest)
    handler = command.handler()
    code = handler(*_typed(handler, handed), **vars(arguments))
    return code if isinstance(code, int) else None


def _typed(handler: Handler, handed: list[Any]) -> list[Any]:
    """With paths where the handler's parameters say Path."""
    found = []
    for value, parameter in zip(handed, inspect.signature(handler).parameters.values(), strict=False):
        if "Path" in str(parameter.annotation) and isinstance(value, str | list):
            value = [Path(word) for word in value] if isinstance(value, list) else Path(value)
        found.append(value)
    return found


def _names_a_config(word: str) -> bool:
    """A whole command line as one argument, such as `challenge time` takes, may end in the name of a YAML file, too."""
    return word.endswith((".yaml", ".yml")) and (" " not in word or Path(word).is_file())


def usage_of(program: str, command: Command) -> str:
    config = " [CONFIG.yaml] [key=value …]" if command.schema is not None else ""
    flags = " [--option …]" if command.options is not None else ""
    return " ".join([program, *command.arguments]) + config + flags


def _epilog(schema: type | None, verbs: Sequence[Command]) -> str | None:
    lines = ["verbs:", *_summaries(verbs)] if verbs else []
    if schema is not None:
        lines += ["keys, in CONFIG.yaml or as key=value:"]
        for key in keys_of(schema):
            limits = f", {key.range}" if key.range else ""
            lines.append(f"  {key.name}  ({key.type}{limits}, {key.default})")
            lines.extend(textwrap.wrap(key.help, 110, initial_indent="      ", subsequent_indent="      "))
    return "\n".join(lines) or None


def _bind(program: str, command: Command, words: list[str]) -> list[Any]:
    """The words of each of the command's declared arguments, in order."""
    left = list(words)
    found: list[Any] = []
    for declared in command.arguments:
        if "…" in declared:
            if not left and not declared.startswith("["):
                raise UserError(f"{program}: {declared.strip('[]…')} is missing; usage: {usage_of(program, command)}")
            found.append(left)
            left = []
        elif left:
            found.append(left.pop(0))
        elif declared.startswith("["):
            found.append(None)
        else:
            raise UserError(f"{program}: {declared} is missing; usage: {usage_of(program, command)}")
    if left:
        raise UserError(f"{program}: '{left[0]}' was not expected; usage: {usage_of(program, command)}")
    return found
