"""Read what Linux tells of a processor."""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from pathlib import Path


def processor() -> dict[str, str]:
    """What the system tells of its first processor; nothing where that is not Linux. No more is
    read: on a large machine the full list takes the kernel long."""
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        pairs = [line.partition(":") for line in takewhile(str.strip, lines)]
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {}
