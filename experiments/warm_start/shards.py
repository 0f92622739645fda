"""A shard of images without labels, laid out as `python -m data_pipeline shard` does it."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.runtime.files import write_json

NAME = "shard-000000.tar"


def write_shard(folder: Path, corpus: str, images: Iterable[tuple[str, str, bytes]]) -> None:
    """`images`: key, video and JPEG of each."""
    rows, index = [], []
    with tarfile.open(folder / NAME, "w", format=tarfile.USTAR_FORMAT) as archive:
        for key, video, jpeg in images:
            row = {"key": key, "corpus": corpus, "video": video, "source": video}
            place: list[str | int] = [key]
            for extension, data in (("jpg", jpeg), ("json", json.dumps(row).encode())):
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size = len(data)
                place += [archive.offset + tarfile.BLOCKSIZE, len(data)]
                archive.addfile(member, io.BytesIO(data))
            index.append(place)
            rows.append({**row, "shard": NAME})
    write_json(folder / NAME.replace(".tar", ".index.json"), {"format": 1, "shard": NAME, "samples": index})
    pq.write_table(pa.Table.from_pylist(rows), folder / "manifest.parquet")
    write_json(folder / "manifest.json", {"shards": [NAME], "leakage": None})
