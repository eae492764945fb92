"""Build findings in the form hooks return (:func:`rlcore.contracts.hookspecs.rlcore_doctor`).
Light."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlcore.contracts.errors import AssetError, ConfigError, UserError

Row = dict[str, str]


def row(name: str, detail: str, status: str = "ok", fix: str = "") -> Row:
    """Make a row of `rlcore doctor`."""
    return {"name": name, "status": status, "detail": detail, "fix": fix}


@dataclass(frozen=True)
class Finding:
    """One finding of the checks.

    Attributes:
        status: "ok", "warning" (a run starts nevertheless), "missing" (it has to be supplied) or
            "refused" (it has to be changed).
        text: what is found, of what.
        fix: the command that mends it; empty: there is none.
        error: by which a run ends; None: by none.
    """

    status: str
    text: str
    fix: str = ""
    error: UserError | None = field(default=None, compare=False)

    def __str__(self) -> str:
        fix = f"\n         fix: {self.fix}" if self.fix and self.status != "ok" else ""
        return f"{self.status:<8} {self.text}{fix}"


def of_row(row: Row, lacks: str = "") -> Finding:
    """A row as a finding; `lacks` begins the error, if it is one of what is missing."""
    text, fix, status = f"{row['name']}: {row['detail']}", row["fix"], row["status"]
    error: UserError | None = None
    if status == "missing":
        error = AssetError(lacks + text, hint=fix or None)
    elif status == "refused":
        error = ConfigError(text, hint=fix or None)
    return Finding(status, text, fix, error)
