"""Make rows of `rlcore doctor`. Light."""

from __future__ import annotations

Row = dict[str, str]


def row(name: str, detail: str, status: str, fix: str) -> Row:
    """As :func:`rlcore.contracts.hookspecs.rlcore_doctor` returns them."""
    return {"name": name, "status": status, "detail": detail, "fix": fix}
