"""One dataset's own labels and folders, and what they mean in the taxonomy. The content is data, in mappings/*.yaml."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from panendofm.atlas.datasets.catalog import About
from panendofm.atlas.taxonomy import Label, Taxonomy, expected_form, load_taxonomy, read_yaml, refuse_unknown
from panendofm.records.documents import parse_document
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_text

READERS = (
    "paths", "table", "mask-names", "mask-colors", "voc-boxes", "yolo-boxes", "label-file-names", "vector-lists",
)  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Which files are images. Named groups of the pattern give label, patient, video and other parts of the name."""

    files: re.Pattern[str]  # matched against the whole path below the dataset's folder
    label: str | None = None  # for files whose label is not in their path
    prefix: str = ""  # told apart from other rules: put before patient and video


@dataclass(frozen=True)
class CodeTable:
    """That a table of the user's may say what codes mean (codes.py). `what`: what a code is, and who has the table."""

    what: str
    of: Literal["label", "patient"] = "label"  # which of an image's names is the code
    was: str = ""  # how the table was called before


@dataclass(frozen=True)
class Mapping:
    """A dataset of the atlas."""

    dataset: str
    title: str
    labels: dict[str, tuple[Label, ...]]
    same_as: dict[str, str]  # other spellings of the dataset's labels
    rules: tuple[Rule, ...]
    reader: str = "paths"
    folder: re.Pattern[str] | None = None  # what the dataset's folder is called, where its content doesn't tell
    contains: tuple[str, ...] = ()  # globs that its folder must hold
    overlaps: tuple[str, ...] = ()  # datasets known to share images with this one
    ids_of: str | None = None  # dataset whose patients and videos these are
    settings: dict[str, Any] = field(default_factory=dict)  # what the reader needs beside the rules
    regions: dict[str, Any] = field(default_factory=dict)  # where masks or boxes of an image are
    license: str = "unknown"
    notes: str = ""
    codes: CodeTable | None = None
    about: About | None = None  # the shipped ones have it

    def meaning(self, label: str) -> tuple[Label, ...] | None:
        """What a label of the dataset stands for; None when it isn't mapped."""
        return self.labels.get(self.same_as.get(label, label))


_KEYS = {
    "dataset", "title", "license", "licence", "labels", "same_as", "layout", "reader", "signature", "overlaps",
    "ids_of", "table", "vector_lists", "mask_colors", "regions", "notes", "codes", "about",
}  # fmt: skip


def parse_mapping(text: str, source: str, taxonomy: Taxonomy) -> Mapping:
    """Read and check a mapping: every label exists in the taxonomy, every spelling leads to a label."""
    with expected_form(source, "a mapping"):
        return _parse_mapping(text, source, taxonomy)


def _parse_mapping(text: str, source: str, taxonomy: Taxonomy) -> Mapping:
    values = read_yaml(text, source, _KEYS)
    for needed in ("dataset", "labels"):
        if needed not in values:
            raise UserError(f"{source}: the key '{needed}' is missing; add it.")
    labels = {str(name): _labels(levels, f"{source}: {name}", taxonomy) for name, levels in values["labels"].items()}
    same_as = {str(a): str(b) for a, b in values.get("same_as", {}).items()}
    for spelling, label in same_as.items():
        if label not in labels:
            match = difflib.get_close_matches(label, labels, n=1)
            hint = f"did you mean '{match[0]}'?" if match else "add the label or remove the spelling."
            raise UserError(f"{source}: same_as.{spelling} leads to '{label}', which is no label here; {hint}")
    signature = values.get("signature", {})
    refuse_unknown(signature, {"folder", "contains"}, f"{source}: signature")
    regions = values.get("regions", {})
    refuse_unknown(regions, {"masks", "boxes", "box_file", "label", "within", "one_per_image"}, f"{source}: regions")
    reader = values.get("reader", "paths")
    if reader not in READERS:
        raise UserError(f"{source}: there is no reader '{reader}'; there are: {', '.join(READERS)}.")
    return Mapping(
        dataset=str(values["dataset"]),
        title=str(values.get("title", values["dataset"])),
        labels=labels,
        same_as=same_as,
        rules=tuple(_rule(rule, source) for rule in values.get("layout", [])),
        reader=reader,
        folder=_pattern(signature["folder"], source) if "folder" in signature else None,
        contains=tuple(signature.get("contains", ())),
        overlaps=tuple(values.get("overlaps", ())),
        ids_of=values.get("ids_of"),
        settings=values.get("table") or values.get("vector_lists") or values.get("mask_colors") or {},
        regions=regions,
        license=str(values.get("license", values.get("licence", "unknown"))),  # the second in mappings of users
        notes=str(values.get("notes", "")),
        codes=parse_document(CodeTable, values["codes"], source, "a table of codes") if "codes" in values else None,
        about=parse_document(About, values["about"], source, "a record") if "about" in values else None,
    )


def _labels(levels: Any, where: str, taxonomy: Taxonomy) -> tuple[Label, ...]:
    if not isinstance(levels, list) or not levels:
        raise UserError(f"{where}: a label is a list of 3 or 4 levels, or a list of such lists.")
    several = levels if isinstance(levels[0], list) else [levels]
    return tuple(taxonomy.resolve(one, where) for one in several)


def _rule(values: dict[str, Any], source: str) -> Rule:
    refuse_unknown(values, {"files", "label", "prefix"}, f"{source}: layout")
    return Rule(_pattern(values["files"], source), values.get("label"), values.get("prefix", ""))


def _pattern(text: str, source: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UserError(f"{source}: '{text}' is not a regular expression ({error}).") from error


@cache
def load_mappings(extra: Path | None = None) -> dict[str, Mapping]:
    """The mappings of this package by dataset; those in the folder `extra` are added, or replace one by its name."""
    taxonomy = load_taxonomy()
    texts = {
        item.name: item.read_text(encoding="utf-8")
        for item in resources.files("panendofm.atlas").joinpath("mappings").iterdir()
        if item.name.endswith(".yaml")
    }
    mappings = [parse_mapping(text, name, taxonomy) for name, text in sorted(texts.items())]
    if extra is not None:
        mappings += [load_mapping(path, taxonomy) for path in sorted(extra.glob("*.yaml"))]
    by_name = {mapping.dataset: mapping for mapping in mappings}
    for mapping in mappings:
        for other in (*mapping.overlaps, *([mapping.ids_of] if mapping.ids_of else [])):
            if other not in by_name:
                raise UserError(f"{mapping.dataset}.yaml: '{other}' is no dataset of the atlas; correct the name.")
    return by_name


def load_mapping(path: Path, taxonomy: Taxonomy) -> Mapping:
    return parse_mapping(read_text(path), str(path), taxonomy)
