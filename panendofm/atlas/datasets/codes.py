"""Tables of the user's that say what a dataset's codes mean, for datasets whose own table is not public.

NAME_codes.csv lies beside the dataset, or is named with codes.NAME=PATH. A line gives a code, and either a label that
the mapping of the dataset knows or the levels of the taxonomy:

    code,region,category,finding,grade          code,label
    g17,stomach,pathological-findings,gastric-ulcer,          case7,LA

A code with several lines means all of them. Lines without a meaning are left out, so a template can be filled bit by
bit. Other columns, such as the number of images, are for the reader.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from pathlib import Path

from panendofm.atlas.datasets.mapping import Mapping
from panendofm.atlas.taxonomy import Label, Taxonomy, load_taxonomy
from panendofm.runtime.csv_files import csv_text, read_csv, unescaped
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text

LEVELS = ("region", "category", "finding", "grade")


@dataclass(frozen=True)
class CodesWithoutMeaning:
    """Codes of a dataset on disk that neither its mapping nor a table explains."""

    codes: int
    images: int
    of_codes: int
    table: str  # the file that would explain them


def codes_file(mapping: Mapping) -> str:
    return f"{mapping.dataset}_codes.csv"


def find_codes(mapping: Mapping, source: Path, given: MappingOf[str, str]) -> Path | None:
    """The table that the user names, else the one beside the dataset."""
    if mapping.dataset in given:
        path = Path(given[mapping.dataset])
        if not path.is_file():
            raise UserError(f"codes.{mapping.dataset}={path}: there is no such file; check the path.")
        return path
    folder = source if source.is_dir() else source.parent
    path = folder / codes_file(mapping)
    if path.is_file():
        return path
    if mapping.codes is not None and mapping.codes.was and (folder / mapping.codes.was).is_file():
        raise UserError(f"{folder / mapping.codes.was}: call this table {path.name} and its columns code and label.")
    return None


def with_codes(mapping: Mapping, path: Path | None) -> Mapping:
    """The mapping, extended by a table; a code that both explain means what the table says."""
    if path is None:
        return mapping
    return replace(mapping, labels={**mapping.labels, **read_codes(path, mapping, load_taxonomy())})


def read_codes(path: Path, mapping: Mapping, taxonomy: Taxonomy) -> dict[str, tuple[Label, ...]]:
    found: dict[str, list[Label]] = defaultdict(list)
    for number, row in enumerate(read_csv(path, ("code",)), start=2):
        cells = {name: unescaped(cell).strip() for name, cell in row.items()}
        where = f"{path}, line {number}"
        levels = [cells.get(name, "") for name in LEVELS]
        own = cells.get("label", "")
        if not own and not any(levels):
            continue
        if not cells["code"]:
            raise UserError(f"{where}: the code is empty; write it or remove the line.")
        if own and any(levels):
            raise UserError(f"{where}: it has a label and levels of the taxonomy; keep one of them.")
        if own:
            meaning = mapping.meaning(own)
            if meaning is None:
                known = ", ".join(mapping.labels)
                raise UserError(f"{where}: '{own}' is no label of {mapping.dataset}; there are: {known}.")
            found[cells["code"]] += meaning
        else:
            found[cells["code"]].append(taxonomy.resolve(levels if levels[3] else levels[:3], where))
    return {code: tuple(labels) for code, labels in found.items()}


def write_template(path: Path, mapping: Mapping, images: Counter[str]) -> int:
    """All codes seen on disk, with what is known of them; returns how many have no meaning yet.

    A table that is there already keeps what it says.
    """
    known = with_codes(mapping, path if path.is_file() else None)
    lines: list[tuple[object, ...]] = []
    missing = 0
    for code in sorted(images):
        labels = known.labels.get(code, ())
        missing += not labels
        for label in labels or (None,):
            levels = ("",) * 4 if label is None else (label.region, label.category, label.written, label.grade)
            lines.append((code, images[code], *levels))
    write_text(path, csv_text(("code", "images", *LEVELS), lines))
    return missing
