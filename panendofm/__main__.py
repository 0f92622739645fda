"""`panendofm STAGE [VERB] …`: every stage behind one command."""

from __future__ import annotations

import pkgutil
import sys
from dataclasses import dataclass, replace
from typing import NoReturn, cast

from panendofm import __version__
from panendofm.runtime.command_line import Command, Stage, run_stage
from panendofm.runtime.errors import UserError, exit_code_of
from panendofm.runtime.names import hint


@dataclass(frozen=True)
class Entry:
    """A word behind `panendofm`: the stage in a module, or one verb of it."""

    name: str
    module: str
    purpose: str
    verb: str | None = None

    def stage(self) -> Stage:
        found = cast(Stage, pkgutil.resolve_name(f"{self.module}.__main__:STAGE"))
        program = f"panendofm {self.name}"
        if self.verb is None:
            return replace(found, program=program)
        only: Command = next(command for command in found.commands if command.name == self.verb)
        return Stage(program, [replace(only, name="")], found.extra)


GROUPS = {
    "From videos to a released model": [
        Entry("data-pipeline", "data_pipeline", "corpora to clean, de-identified, leak-checked shards"),
        Entry("pretrain", "pretrain", "shards to checkpoints"),
        Entry("eval-knn", "eval_knn", "score checkpoints by kNN, choose one, say when to stop"),
        Entry("export", "panendofm.backbone", "a checkpoint to weights that anyone can load", "export"),
        Entry("publish", "panendofm.backbone", "a release to the Hugging Face hub", "publish"),
        Entry("launch", "launch", "the stages as jobs; plan, doctor, status, report, demo"),
    ],
    "Use a model": [
        Entry("compress", "panendofm.deployment", "fp16 and int8 graphs of a release, and what they cost", "compress"),
        Entry("benchmark", "panendofm.deployment", "how fast a release is on this machine", "benchmark"),
        Entry("embed", "panendofm.backbone", "features of images as a table", "embed"),
        Entry("backbone", "panendofm.backbone", "look at weights, verify a release, recenter features"),
    ],
    "Show what a model is worth": [
        Entry("atlas", "panendofm.atlas", "labeled datasets under one taxonomy"),
        Entry("probe", "panendofm.linear_probe", "linear probes on PanEndoX; predictions and video reports"),
        Entry("dense", "panendofm.linear_probe.dense", "segmentation and detection on frozen features"),
        Entry("challenge", "panendofm.challenge", "score and rank files of predictions: Medico, ITU/WHO"),
        Entry("vqa", "panendofm.vqa", "EndoBench and GI-Bench: models and people on the same questions"),
    ],
}
ENTRIES = {entry.name: entry for entries in GROUPS.values() for entry in entries}


def _help() -> str:
    width = max(map(len, ENTRIES))
    lines = ["usage: panendofm STAGE [VERB] …"]
    for title, entries in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {entry.name.ljust(width)}  {entry.purpose}" for entry in entries)]
    return "\n".join([*lines, "", "panendofm STAGE --help says more of each; panendofm --version names the version."])


def _unknown(word: str) -> NoReturn:
    raise UserError(f"panendofm has no stage '{word}'; {hint(word, ENTRIES)}")


def main() -> NoReturn:
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        sys.exit(0 if words else 2)
    if words[0] == "--version":
        print(f"panendofm {__version__}")
        sys.exit(0)
    # eval_knn, as the package is called, does as well.
    entry = ENTRIES.get(words[0].replace("_", "-"))
    if entry is None:
        sys.exit(exit_code_of(lambda: _unknown(words[0])))
    run_stage(entry.stage(), words[1:])


if __name__ == "__main__":
    main()
