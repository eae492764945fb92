"""Read the properties of the processor from /proc/cpuinfo."""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from pathlib import Path


def processor() -> dict[str, str]:
    """Return the properties of the first processor, by name; empty if the system is not Linux.

    The other processors are not read, because the kernel takes long for the full list of a large
    machine.
    """
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        pairs = [line.partition(":") for line in takewhile(str.strip, lines)]
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {}
