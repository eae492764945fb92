"""Make the tables of a LeRobot data set, and write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.files.atomic import atomic_write
from rlcore_data_lerobot.own import IMAGES
from rlcore_data_lerobot.video import encode_png


def episode_table(columns: Mapping[str, np.ndarray], images: Mapping[str, np.ndarray]) -> pa.Table:
    """Return the table of one episode.

    The note in its schema tells HuggingFace's loader which columns hold images.

    Args:
        columns: numbers `[L]` and vectors `[L, n]` by column.
        images: frames uint8 `[L, H, W, 3]` by camera.
    """
    arrays: dict[str, pa.Array] = {}
    features: dict[str, Any] = {}
    for camera, frames in images.items():
        cells = [{"bytes": encode_png(frame), "path": None} for frame in frames]
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        arrays[IMAGES + camera] = pa.array(cells, kind)
        features[IMAGES + camera] = {"_type": "Image"}
    for name, column in columns.items():
        array = pa.array(column.reshape(-1))
        feature: dict[str, Any] = {"dtype": str(column.dtype), "_type": "Value"}
        if column.ndim > 1:
            size = column.shape[1]
            array = pa.FixedSizeListArray.from_arrays(array, size)
            feature = {"feature": feature, "length": size, "_type": "Sequence"}
        arrays[name] = array
        features[name] = feature
    note = json.dumps({"info": {"features": features}})
    return pa.table(arrays).replace_schema_metadata({"huggingface": note})


def instruction_table(instructions: Sequence[str]) -> pa.Table:
    """Return the table of instructions, a pandas frame whose index is the instruction.

    The note in its schema tells pandas so. LeRobot looks instructions up in that index.
    """
    types = (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    columns = [
        {
            "name": name,
            "field_name": name,
            "pandas_type": pandas_type,
            "numpy_type": numpy_type,
            "metadata": None,
        }
        for name, pandas_type, numpy_type in types
    ]
    note = {"index_columns": ["task"], "column_indexes": [], "columns": columns}
    numbers = pa.array(range(len(instructions)), pa.int64())
    table = pa.table({"task_index": numbers, "task": pa.array(instructions, pa.string())})
    return table.replace_schema_metadata({"pandas": json.dumps(note)})


def write_table(table: pa.Table, file: Path) -> None:
    """Write a table atomically.

    LeRobot's reader takes all files that end in .parquet, so an unfinished one has another suffix.
    """
    unfinished = file.with_suffix(".unfinished")
    with atomic_write(unfinished) as partial:
        pq.write_table(table, partial, compression="snappy")
    unfinished.replace(file)
