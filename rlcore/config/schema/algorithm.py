"""Keys of `algorithm` that all algorithms share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rlcore.config.schema.keys import Settings, key


@dataclass
class AlgorithmConfig(Settings):
    """Settings all algorithms share; a plugin's dataclass adds its own.

    Attributes:
        unused: keys of other sections that such an algorithm does not read: `{path: why}`.
    """

    unused: ClassVar[Mapping[str, str]] = {}
    name: str = key("registered name of the algorithm", "???")
    group_size: int = key("episodes of an update that share one start", 1, least=1)
    wrappers: list[Any] = key(
        "what changes the algorithm, from inside out: NAME or {NAME: {key: value}}", []
    )
