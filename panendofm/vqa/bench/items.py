"""A bench on disk: questions in items.parquet, pictures beside them, a manifest and checksums.

The columns are those of a Hugging Face dataset; `image` names a file of the bench, and exports put its bytes inside.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import (
    atomic_file,
    failed_checksums,
    read_json_object,
    sha256_of,
    write_checksums,
    write_json,
)
from panendofm.runtime.parquet_files import read_parquet
from panendofm.scoring.answers.replies import LETTERS

FORMAT = 1
ITEMS, MANIFEST, IMAGES, CHECKSUMS = "items.parquet", "manifest.json", "images", "SHA256SUMS"

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class MarkedRegion:
    """A region in pixels of the picture as it is sent."""

    name: str
    color: str  # empty: not drawn
    box: Box
    polygon: tuple[tuple[int, int], ...] = ()
    target: bool = False
    annotator: str = ""  # whose box it is, beside the consensus


@dataclass(frozen=True)
class Item:
    """One question. `answer` is the letter of the right option; empty for boxes and texts."""

    id: str
    task: str
    subtask: str
    category: str
    scene: str
    prompt_kind: str
    kind: str  # choice, box, text
    sha256: str  # of the picture that it was made from
    group: str
    image: str  # file below the bench; empty: none
    width: int
    height: int
    question: str
    options: tuple[str, ...] = ()
    answer: str = ""
    entity: str = ""
    benchmark: str = ""
    dataset: str = ""
    source: str = ""
    question_original: str = ""
    template: str = ""
    regions: tuple[MarkedRegion, ...] = ()
    reference: str = ""
    system: str = ""
    natural_order: bool = False
    human: bool = False
    other: str = ""  # further columns of an imported file, as JSON

    @property
    def targets(self) -> tuple[MarkedRegion, ...]:
        """The regions that are asked for."""
        return tuple(region for region in self.regions if region.target)

    @property
    def answer_text(self) -> str:
        return self.options[LETTERS.index(self.answer)] if self.answer else ""


def question_id(*parts: str) -> str:
    """16 hex digits that name a question by what it is made of."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


_REGION = pa.struct(
    [
        ("name", pa.string()),
        ("color", pa.string()),
        ("box", pa.list_(pa.int32())),
        ("polygon", pa.list_(pa.list_(pa.int32()))),
        ("target", pa.bool_()),
        ("annotator", pa.string()),
    ]
)
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_TYPES: dict[str, pa.DataType] = {
    "width": pa.int32(),
    "height": pa.int32(),
    "options": pa.list_(pa.string()),
    "regions": pa.list_(_REGION),
    "natural_order": pa.bool_(),
    "human": pa.bool_(),
    "image": _IMAGE,
}
_COLUMNS = [item.name for item in fields(Item)]


def _huggingface() -> dict[str, Any]:
    """The features as the library `datasets` describes them, so that it shows the pictures."""

    def value(dtype: str) -> dict[str, str]:
        return {"dtype": dtype, "_type": "Value"}

    def several(feature: Any) -> dict[str, Any]:
        return {"feature": feature, "_type": "List"}

    region = {
        "name": value("string"),
        "color": value("string"),
        "box": several(value("int32")),
        "polygon": several(several(value("int32"))),
        "target": value("bool"),
        "annotator": value("string"),
    }
    special: dict[str, Any] = {
        "width": value("int32"),
        "height": value("int32"),
        "options": several(value("string")),
        "regions": several(region),
        "natural_order": value("bool"),
        "human": value("bool"),
        "image": {"_type": "Image"},
    }
    return {"info": {"features": {name: special.get(name, value("string")) for name in _COLUMNS}}}


SCHEMA = pa.schema(
    [(name, _TYPES.get(name, pa.string())) for name in _COLUMNS],
    metadata={"huggingface": json.dumps(_huggingface()), "bench": json.dumps({"format": FORMAT})},
)


def to_table(items: Sequence[Item], pictures: dict[str, bytes] | None = None) -> pa.Table:
    """The questions as a table; with `pictures` (by file) their bytes are inside."""
    rows = []
    for item in items:
        row = asdict(item)
        row["image"] = {"bytes": pictures[item.image] if pictures and item.image else None, "path": item.image}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write_table(table: pa.Table, path: Path) -> None:
    with atomic_file(path) as stream:
        pq.write_table(table, stream, compression="zstd")


def _item(row: dict[str, Any]) -> Item:
    regions = tuple(
        MarkedRegion(
            r["name"],
            r["color"],
            tuple(r["box"]),
            tuple((x, y) for x, y in r["polygon"] or ()),
            bool(r["target"]),
            r.get("annotator") or "",
        )
        for r in row["regions"] or ()
    )
    known = {name: row[name] for name in _COLUMNS if name in row and row[name] is not None}
    known |= {"image": row["image"]["path"], "options": tuple(row["options"] or ()), "regions": regions}
    return Item(**known)


@dataclass(frozen=True)
class Bench:
    """A bench that was read."""

    folder: Path
    manifest: dict[str, Any]
    items: list[Item]
    checksum: str  # of the questions: answers name it

    @cached_property
    def by_id(self) -> dict[str, Item]:
        return {item.id: item for item in self.items}

    def picture(self, item: Item) -> bytes:
        path = self.folder / item.image
        with naming_path("read the picture", path):
            return path.read_bytes()


@dataclass
class Draft:
    """A bench that is being made: questions, and the pictures that they show, by file name."""

    name: str
    items: list[Item] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


def write_bench(folder: Path, draft: Draft) -> None:
    """Write questions, manifest and checksums into a folder that holds the pictures already."""
    if not draft.items:
        raise UserError("not one question could be built; the reasons are listed above.")
    write_table(to_table(draft.items), folder / ITEMS)
    items = draft.items
    counts = {
        name: dict(sorted(Counter(getattr(item, name) for item in items).items()))
        for name in ("task", "subtask", "scene", "prompt_kind", "kind", "dataset")
    }
    manifest = {
        "format": FORMAT,
        "name": draft.name,
        "questions": len(items),
        "pictures": len({item.sha256 for item in items}),
        "groups": len({item.group for item in items}),
        "items_sha256": sha256_of(folder / ITEMS),
        "counts": counts,
        **draft.notes,
    }
    write_json(folder / MANIFEST, manifest)
    files = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != CHECKSUMS]
    write_checksums(folder, files, CHECKSUMS)


def read_bench(folder: Path | str, verify: bool = False) -> Bench:
    """Read a bench; `verify` compares all its files with their checksums."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file() or not (folder / ITEMS).is_file():
        raise UserError(f"{folder} holds no bench ({MANIFEST} and {ITEMS} are missing); make one with 'vqa build'.")
    manifest = read_json_object(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise UserError(f"{folder}: the bench has format {manifest.get('format')}, this version reads {FORMAT}.")
    checksum = sha256_of(folder / ITEMS)
    if checksum != manifest.get("items_sha256"):
        raise UserError(f"{folder / ITEMS} is not the file that {MANIFEST} names; build or copy the bench anew.")
    if verify:
        damaged = failed_checksums(folder, CHECKSUMS)
        if damaged:
            raise UserError(
                f"{folder / damaged[0]} is missing or was changed ({len(damaged)} such files); copy it anew."
            )
    table = read_parquet(folder / ITEMS, "build the bench anew")
    return Bench(folder, manifest, [_item(row) for row in table.to_pylist()], checksum)
