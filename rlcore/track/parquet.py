"""Rows in parquet files, with checksums of their pages. Knows nothing of what the rows mean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.errors import CheckpointError
from rlcore.track.files import replacing
from rlcore.track.headers import damaged

NOTE = b"rlcore"


def write_rows(
    path: Path,
    rows: Iterable[Mapping[str, Any]],
    schema: pa.Schema,
    note: Mapping[str, Any] | None = None,
) -> None:
    """One row a mapping; atomically. A note is kept beside them, see :func:`read_note`."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
    if note is not None:
        table = table.replace_schema_metadata({NOTE: json.dumps(note)})
    with replacing(path) as partial:
        pq.write_table(table, partial, write_page_checksum=True)


def read_rows(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    """Rows written by :func:`write_rows`, columns besides those of `schema` left out.

    Raises:
        CheckpointError: missing, damaged, or another kind of table.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} holds no {path.name}")
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        missing = sorted(set(schema.names) - set(table.column_names))
        if missing:
            raise ValueError(f"columns {missing} are missing, it has {table.column_names}")
        rows: list[dict[str, Any]] = table.select(schema.names).cast(schema).to_pylist()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(path, str(error)) from error
    return rows


def read_note(path: Path) -> dict[str, Any]:
    """The note kept beside the rows; empty where there is none.

    Raises:
        CheckpointError: missing or damaged.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} holds no {path.name}")
    try:
        note = json.loads((pq.read_schema(path).metadata or {}).get(NOTE, b"{}"))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(note, dict):
        raise damaged(path, f"its note can't be {note!r}")
    return note
