"""Parquet tables that others may have cut, overwritten or made: read whole, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.errors import UserError, naming_path


def read_parquet(
    path: Path | str,
    remedy: str,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    dictionaries: Sequence[str] = (),
) -> pa.Table:
    """The table of a Parquet file, with all of `columns` or of `schema`; `remedy` ends an error: «make it again».

    `dictionaries`: columns of few distinct texts, each held once in memory.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"cannot read {path}: it does not exist; {remedy}.")
    with naming_path("read", path), path.open("rb") as stream:
        try:
            file = pq.ParquetFile(stream)
            wanted = schema.names if schema is not None else columns
            absent = [name for name in wanted or () if name not in file.schema_arrow.names]
            if absent:
                raise UserError(f"cannot read {path}: it has no column '{absent[0]}'; {remedy}.")
            if dictionaries:
                file = pq.ParquetFile(stream, read_dictionary=list(dictionaries))
            table = file.read(list(wanted) if wanted is not None else None)
            table.validate(full=True)
            return table if schema is None else table.cast(schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            # A cut file is an OSError to Arrow, without a number of the operating system.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UserError(f"cannot read {path}: it is no Parquet file, or it is damaged; {remedy}.") from error
