"""Read published results of a benchmark from `published.yaml` in an env's package.

PROTOCOL:
  differs: [what of the protocol was different for these, ...]
  tables:
    - source: URL
      setting: how its episodes were played
      rows:
        - {model: NAME, algorithm: PPO, weights: NAME, figures: {COLUMN: 96.09}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlcore.contracts.specs import Published
from rlcore.files.reading import read_yaml


def published(module: str, protocol: str) -> dict[str, Any]:
    """Return the arguments `published` and `differs` of a protocol's
    :class:`rlcore.contracts.specs.ProtocolSpec`.

    The source and setting of a table apply to each of its rows.

    Args:
        module: `__file__` of a module in the folder of `published.yaml`.
        protocol: name of the protocol in that file.
    """
    content: dict[str, Any] = read_yaml(Path(module).with_name("published.yaml"))[protocol]
    rows = [
        Published(source=table["source"], setting=table["setting"], **row)
        for table in content["tables"]
        for row in table["rows"]
    ]
    return {"published": tuple(rows), "differs": tuple(content["differs"])}
