"""Make rows of `rlcore doctor`. Light."""

from __future__ import annotations

Row = dict[str, str]


def row(name: str, detail: str, status: str, fix: str) -> Row:
    """Return a row in the form that :func:`rlcore.contracts.hookspecs.rlcore_doctor` expects."""
    return {"name": name, "status": status, "detail": detail, "fix": fix}
