"""croissant.json: what a shard set says of itself to programs that list and load datasets."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.records.shards import ShardFolder
from panendofm.reports import render_text
from panendofm.runtime.files import read_checksums, write_json
from panendofm.runtime.yaml_files import parse_yaml


def write_croissant(files: ShardFolder) -> None:
    """Made of the set's own files; written anew whenever the report is."""
    manifest = files.read_manifest()
    text = render_text(
        "data_pipeline",
        "croissant.yaml",
        name=files.path.name,
        frames=manifest.frames,
        corpora=files.read_corpora(),
        shards=manifest.shards,
        checksums=read_checksums(files.checksums),
        columns={field.name: _type_of(field.type) for field in pq.read_schema(files.frames)},
        audit=manifest.text_audit,
        certificate=manifest.leakage,
    )
    write_json(files.croissant, parse_yaml(text, "croissant.yaml"))


def _type_of(column: pa.DataType) -> str:
    if pa.types.is_integer(column):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(column) else "sc:Text"
