"""Write a policy server's metadata into the manifest of an evaluation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import read_mapping
from rlcore_serve.remote import make_client
from rlcore_serve.remote_settings import RemoteConfig

ENTRY = "policy_server"
MAX_METADATA_LENGTH = 1 << 16
"""Largest metadata, in characters of JSON, that is written; larger metadata is left out."""


def record_server(config: RemoteConfig, folder: Path) -> None:
    """Connect to the server; add its address and metadata to `manifest.json` in a run's folder."""
    client = make_client(config)
    client.open()
    client.close()
    metadata = to_json(client.metadata)
    size = len(json.dumps(metadata))
    if size > MAX_METADATA_LENGTH:
        metadata = f"{size} bytes, left out"
    manifest = read_mapping(folder / "manifest.json")
    manifest[ENTRY] = {"url": config.url, "says": metadata}
    write_text(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")


def to_json(value: Any) -> Any:
    """Convert a message to JSON's types.

    Keys become strings, arrays become lists, and other values that JSON lacks, including NaN and
    infinity, become strings.
    """
    if isinstance(value, dict):
        return {_text(name): to_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return to_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _text(value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
