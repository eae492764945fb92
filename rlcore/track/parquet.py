"""Rows in parquet files, with checksums of their pages. Knows nothing of what the rows mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.errors import CheckpointError
from rlcore.track.files import replacing
from rlcore.track.headers import damaged


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> None:
    """One row a mapping; atomically."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
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
