"""Write what a server says of itself into the manifest of an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.files.atomic import write_text
from rlcore.files.reading import read_json
from rlcore_serve.remote import link
from rlcore_serve.remote_settings import RemoteConfig

ENTRY = "policy_server"


def note_server(config: RemoteConfig, folder: Path) -> None:
    """Add the server's address and metadata to `manifest.json` of a run's folder."""
    to = link(config)
    to.open()
    to.close()
    manifest = read_json(folder / "manifest.json")
    manifest[ENTRY] = {"url": config.url, "says": json.loads(json.dumps(to.hello, default=_text))}
    write_text(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")


def _text(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
