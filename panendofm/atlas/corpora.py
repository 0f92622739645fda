"""The public corpora that networks are pretrained on, and which datasets and corpora hold the same material.

A corpus is one file in corpora/: how it is laid out on disk, its license, and what it shares with others. Nothing else
knows any of it: the data pipeline reads files by it and leaves parts out, and the probe gives metrics without what a
network may have seen.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.runtime.config import load_config, option, required
from panendofm.runtime.errors import UserError

_FOLDER = Path(__file__).resolve().parent / "corpora"


@dataclass
class FileRule:
    """Files whose path below the corpus root matches `pattern` as a whole; the first rule that matches counts."""

    pattern: str = required("Regular expression; its groups patient, video, organ and component name those.")
    kind: Literal["video", "sequence", "image", "skip"] = option(
        "What they are: a video, frames of one sequence (a folder), single images, or nothing to read.", "image"
    )
    organ: str | None = option("The organ that all of them show, as the taxonomy calls it.", None)
    organs: dict[str, str] = option("The organ by the value of the group 'organ', in lower case.", {})


@dataclass
class Component:
    """A top folder of a corpus that is known by name."""

    part_of: dict[str, str] = option("Corpora that hold the same material, and what it is.", {})
    shares: dict[str, str] = option("Datasets of the atlas that hold the same material, and what it is.", {})


@dataclass
class Corpus:
    """How a corpus is laid out on disk, and what it shares with others."""

    title: str = required("Its name and source.")
    license: str = option("Its license.", "unknown", was="licence")
    files: list[FileRule] = option("Where its files lie.", [])
    shares: dict[str, str] = option("Datasets of the atlas that hold the same material, and what it is.", {})
    components: dict[str, Component] = option("Top folders that are known by name.", {})


@dataclass(frozen=True)
class Overlap:
    """`part` (a corpus, or corpus/component) holds material of `of`."""

    part: str
    of: str
    what: str


@cache
def load_corpora() -> dict[str, Corpus]:
    return {path.stem: load_config(Corpus, path) for path in sorted(_FOLDER.glob("*.yaml"))}


@cache
def overlaps_between_corpora() -> tuple[Overlap, ...]:
    """The part is left out when both are in one run."""
    return tuple(
        Overlap(f"{name}/{part}", of, what)
        for name, corpus in load_corpora().items()
        for part, component in corpus.components.items()
        for of, what in component.part_of.items()
    )


@cache
def overlaps_with_evaluation() -> tuple[Overlap, ...]:
    """Between corpora and evaluation sets (datasets of the atlas)."""
    found = []
    for name, corpus in load_corpora().items():
        parts = {name: corpus.shares}
        parts |= {f"{name}/{part}": component.shares for part, component in corpus.components.items()}
        found += [Overlap(part, of, what) for part, shares in parts.items() for of, what in shares.items()]
    return tuple(found)


def same_name(a: str, b: str) -> bool:
    """Folders are named as people like: capitals don't matter."""
    return a.casefold() == b.casefold()


def nearest_name(name: str, known: list[str]) -> str | None:
    """A known name that `name` is probably a misspelling of."""
    spelled = {other.casefold(): other for other in known}
    match = difflib.get_close_matches(name.casefold(), spelled, n=1, cutoff=0.8)
    return spelled[match[0]] if match else None


def datasets_seen(corpora: list[str], key: str) -> set[str]:
    """Datasets of the atlas that share images with what a network was pretrained on.

    A name is a corpus, one of its components (`endofm-pretrain/SUN`) or any dataset of the atlas. `key` is what an
    error calls the setting that holds the names.
    """
    mappings = load_mappings()
    overlaps = overlaps_with_evaluation()
    known = sorted({*load_corpora(), *(overlap.part for overlap in overlaps), *mappings})
    seen: set[str] = set()
    for given in corpora:
        name = next((other for other in known if same_name(other, given)), None)
        if name is None:
            near = nearest_name(given, known)
            hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}."
            raise UserError(f"{key}: '{given}' is no corpus or dataset that is known here; {hint}")
        seen |= {o.of for o in overlaps if o.part == name or o.part.startswith(f"{name}/")}
        if name in mappings:
            seen |= {name, *mappings[name].overlaps}
    return seen
