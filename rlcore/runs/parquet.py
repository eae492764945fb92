"""Read and write rows of plain values in parquet files with page checksums."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import atomic_write
from rlcore.files.damaged_files import damaged_error, of_another_version
from rlcore.files.reading import decode_text, open_regular, parse_json

NOTE = b"rlcore"
MOST_ROWS = 1_000_000  # limit for damaged files; rlcore writes one row per episode
MOST_BYTES = 1 << 28
BATCH_ROWS = 1024
TYPES = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
INFOS = "infos"
"""Name of a field that holds `{name: number}`."""
INFO = "info/"
"""Prefix of the columns of these numbers."""


def schema_of(kind: type[Any]) -> pa.Schema:
    """Return a schema with one column for each field of a dataclass, except :data:`INFOS`.

    The types of the fields must be among :data:`TYPES`.
    """
    return pa.schema(
        [(field.name, TYPES[str(field.type)]) for field in fields(kind) if field.name != INFOS]
    )


def _with_infos(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([*schema, *(pa.field(name, pa.float64()) for name in names)])


def write_rows(
    path: Path,
    rows: Iterable[Mapping[str, Any]],
    schema: pa.Schema,
    note: Mapping[str, Any] | None = None,
) -> None:
    """Write rows to a parquet file, atomically.

    Args:
        path: the file.
        rows: one mapping for each row. The numbers in the field :data:`INFOS`, if it is there, are
            written as float64 columns `info/NAME`.
        schema: the columns, except those of infos.
        note: JSON values that are stored in the file's metadata (:func:`read_note`).
    """
    flat = [
        {**row, **{f"{INFO}{name}": value for name, value in row.get(INFOS, {}).items()}}
        for row in rows
    ]
    columns = {name for row in flat for name in row if name.startswith(INFO)}
    table = pa.Table.from_pylist(flat, schema=_with_infos(schema, sorted(columns)))
    if note is not None:
        table = table.replace_schema_metadata({NOTE: json.dumps(note)})
    with atomic_write(path) as partial:
        pq.write_table(table, partial, write_page_checksum=True)


def read_rows(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    """Read rows written by :func:`write_rows`.

    Columns that are neither in `schema` nor infos are left out.

    Raises:
        CheckpointError: the file is missing, damaged, too large, or lacks columns of `schema`.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} holds no {path.name}")
    try:
        with open_regular(path) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
            missing = sorted(set(schema.names) - set(file.schema_arrow.names))
            if missing:
                raise of_another_version(path, f"lacks the columns {missing}")
            return list(_rows(file, schema))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged_error(path, str(error)) from error


def _rows(file: pq.ParquetFile, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """Yield the rows, read in batches.

    A small damaged file may decompress to very many rows or very long texts, so the size is checked
    after each batch.

    Raises:
        ValueError: there are more than :data:`MOST_ROWS` rows, or more than :data:`MOST_BYTES`
            bytes.
    """
    if file.metadata.num_rows > MOST_ROWS:
        raise ValueError(f"it says that it has {file.metadata.num_rows} rows")
    filled = 0
    columns = [name for name in file.schema_arrow.names if name.startswith(INFO)]
    schema = _with_infos(schema, columns)
    # Tables are small: starting threads takes longer than reading one.
    for batch in file.iter_batches(BATCH_ROWS, columns=schema.names, use_threads=False):
        filled += batch.nbytes
        if filled > MOST_BYTES:
            raise ValueError(f"its rows take more than {MOST_BYTES} bytes")
        table = pa.Table.from_batches([batch]).select(schema.names)
        same = table.schema.equals(schema)  # avoids a cast, which would import pyarrow.compute
        for row in (table if same else table.cast(schema)).to_pylist():
            numbers = {name.removeprefix(INFO): row.pop(name) for name in columns}
            infos = {name: value for name, value in numbers.items() if value is not None}
            yield {**row, INFOS: infos} if infos else row


def read_note(path: Path) -> dict[str, Any]:
    """Read the note that :func:`write_rows` stored with the rows; empty if there is none.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} holds no {path.name}")
    try:
        with open_regular(path) as stream:
            written = (pq.read_schema(stream).metadata or {}).get(NOTE, b"{}")
        note = parse_json(decode_text(written))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged_error(path, str(error)) from error
    if not isinstance(note, dict):
        raise damaged_error(path, f"its note can't be {note!r}")
    return note
