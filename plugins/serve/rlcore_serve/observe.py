"""Write what a server says of itself into the manifest of an evaluation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import read_mapping
from rlcore_serve.remote import link
from rlcore_serve.remote_settings import RemoteConfig

ENTRY = "policy_server"
LARGEST_NOTE = 1 << 16
"""Bytes of what a server says of itself that a manifest keeps."""


def note_server(config: RemoteConfig, folder: Path) -> None:
    """Add the server's address and metadata to `manifest.json` of a run's folder."""
    to = link(config)
    to.open()
    to.close()
    says = as_json(to.hello)
    size = len(json.dumps(says))
    if size > LARGEST_NOTE:
        says = f"{size} bytes, left out"
    manifest = read_mapping(folder / "manifest.json")
    manifest[ENTRY] = {"url": config.url, "says": says}
    write_text(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")


def as_json(value: Any) -> Any:
    """A message as JSON has it: names as texts, arrays as lists, all else that JSON lacks as
    text."""
    if isinstance(value, dict):
        return {_text(name): as_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _text(value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
