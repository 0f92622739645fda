"""A question, and the table of questions. The columns are those of a Hugging Face dataset.

In a bench `image` names a file beside the table; exports put its bytes inside.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.runtime.files import atomic_file
from panendofm.runtime.parquet_files import read_parquet
from panendofm.scoring.answers.replies import LETTERS

Box = tuple[int, int, int, int]
# The entity of images that show nothing of what is asked for.
NEGATIVE = "none"
_FORMAT = 1
_COORDINATES = re.compile(r"\[\s*\d+(?:\.\d+)?(?:\s*,\s*\d+(?:\.\d+)?){3}\s*\]")


@dataclass(frozen=True)
class MarkedRegion:
    """A region in pixels of the image as it is sent."""

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
    subtask: str  # code of the question type
    category: str
    scene: str
    prompt_kind: str
    kind: str  # of reply: choice, box, text
    sha256: str  # of the image that it was made from
    group: str
    image: str  # file below the bench; empty: none
    width: int
    height: int
    question: str
    options: tuple[str, ...] = ()
    answer: str = ""
    entity: str = ""
    benchmark: str = ""  # name of the bench
    dataset: str = ""
    source: str = ""
    question_original: str = ""
    published: str = ""  # the whole prompt in the paper's words, with places for the options
    open_ended: str = ""  # the same without options to choose from
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
    def target_boxes(self) -> list[Box]:
        return [region.box for region in self.targets]

    @property
    def speaks_of_coordinates(self) -> bool:
        """Whether question or options hold coordinates: nobody reads these off an image."""
        texts = (self.question, *self.options)
        return self.prompt_kind == "coordinate" or any(_COORDINATES.search(text) for text in texts)

    @property
    def answer_text(self) -> str:
        return self.options[LETTERS.index(self.answer)] if self.answer else ""

    @property
    def media_type(self) -> str:
        return "image/png" if self.image.endswith(".png") else "image/jpeg"


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


def _feature(kind: pa.DataType) -> Any:
    """A column's type as the library `datasets` describes it, so that it shows the images."""
    if kind == _IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {part.name: _feature(part.type) for part in kind}
    return {"dtype": str(kind), "_type": "Value"}


def _metadata() -> dict[str, str]:
    features = {name: _feature(_TYPES.get(name, pa.string())) for name in _COLUMNS}
    return {"huggingface": json.dumps({"info": {"features": features}}), "bench": json.dumps({"format": _FORMAT})}


SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _COLUMNS], metadata=_metadata())


def write_items(items: Sequence[Item], path: Path, images: dict[str, bytes] | None = None) -> None:
    """The questions as a Parquet file; with `images` (by file) their bytes are inside."""
    rows = []
    for item in items:
        content = images[item.image] if images and item.image else None
        rows.append({**asdict(item), "image": {"bytes": content, "path": item.image}})
    with atomic_file(path) as stream:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), stream, compression="zstd")


def read_items(path: Path) -> list[Item]:
    return [_item(row) for row in read_parquet(path, "build the bench anew").to_pylist()]


def _item(row: dict[str, Any]) -> Item:
    known = {name: row[name] for name in _COLUMNS if row.get(name) is not None}
    known["image"] = row["image"]["path"]
    known["options"] = tuple(row["options"] or ())
    known["regions"] = tuple(_region(region) for region in row["regions"] or ())
    return Item(**known)


def _region(row: dict[str, Any]) -> MarkedRegion:
    polygon = tuple((x, y) for x, y in row["polygon"] or ())
    annotator = row.get("annotator") or ""
    return MarkedRegion(row["name"], row["color"], tuple(row["box"]), polygon, bool(row["target"]), annotator)


def by_image(items: Iterable[Item]) -> dict[str, dict[str, Item]]:
    """The questions of each image: its checksum → code of the type → question."""
    found: dict[str, dict[str, Item]] = {}
    for item in items:
        found.setdefault(item.sha256, {})[item.subtask] = item
    return found
