"""Parquet tables that others may have cut, overwritten or made: read whole, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.runtime.errors import UserError, naming_path


def read_parquet(
    path: Path | str,
    remedy: str,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    dictionaries: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> pa.Table:
    """The table of a Parquet file, with all of `columns` or of `schema`; `remedy` ends an error: «make it again».

    `dictionaries`: columns of few distinct texts, each held once in memory. `optional`: columns that come along where
    they are there.
    """
    wanted = schema.names if schema is not None else columns
    with _opened(path, remedy, wanted or ()) as (stream, file):
        found = [name for name in optional if name in file.schema_arrow.names]
        if dictionaries:
            absent = set(optional) - set(found)
            file = pq.ParquetFile(stream, read_dictionary=[name for name in dictionaries if name not in absent])
        table = file.read([*wanted, *found] if wanted is not None else None)
        table.validate(full=True)
        return table if schema is None else table.cast(schema)


def read_batches(path: Path | str, remedy: str, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The same, of the columns of `schema`, so many rows at a time: for tables that memory should not hold whole."""
    with _opened(path, remedy, schema.names) as (_, file):
        for batch in file.iter_batches(rows, columns=schema.names):
            yield batch.select(schema.names).cast(schema)


@contextmanager
def _opened(path: Path | str, remedy: str, columns: Sequence[str]) -> Iterator[tuple[IO[bytes], pq.ParquetFile]]:
    path = Path(path)
    if not path.is_file():
        raise UserError(f"cannot read {path}: it does not exist; {remedy}.")
    with naming_path("read", path), path.open("rb") as stream:
        try:
            file = pq.ParquetFile(stream)
            absent = [name for name in columns if name not in file.schema_arrow.names]
            if absent:
                raise UserError(f"cannot read {path}: it has no column '{absent[0]}'; {remedy}.")
            yield stream, file
        except (pa.ArrowException, OSError, ValueError) as error:
            # A cut file is an OSError to Arrow, without a number of the operating system.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UserError(f"cannot read {path}: it is no Parquet file, or it is damaged; {remedy}.") from error
