"""Build findings in the form hooks return (:func:`rlcore.contracts.hookspecs.rlcore_doctor`).
Light."""

from __future__ import annotations

Row = dict[str, str]


def row(name: str, detail: str, status: str = "ok", fix: str = "") -> Row:
    """Make a row of `rlcore doctor`."""
    return {"name": name, "status": status, "detail": detail, "fix": fix}
