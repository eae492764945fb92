"""Build findings, and the rows that doctor hooks return, which become findings.

See :func:`rlcore.contracts.hookspecs.rlcore_doctor`. Light: imports no simulator and no tensor
library.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rlcore.contracts.errors import AssetError, ConfigError, UserError

Row = dict[str, str]


def row(name: str, detail: str, status: str = "ok", fix: str = "") -> Row:
    """Return a row of `rlcore doctor`, in the form that doctor hooks return."""
    return {"name": name, "status": status, "detail": detail, "fix": fix}


@dataclass(frozen=True)
class Finding:
    """One finding of the checks.

    Attributes:
        status: "ok", "warning" (the run starts nevertheless), "missing" (the user must supply
            something) or "refused" (the user must change something).
        text: the component or key, and what is wrong with it.
        fix: command that fixes it; empty if there is none.
        error: error that a run raises for this finding; None if it can start.
    """

    status: str
    text: str
    fix: str = ""
    error: UserError | None = field(default=None, compare=False)

    def __str__(self) -> str:
        fix = f"\n         fix: {self.fix}" if self.fix and self.status != "ok" else ""
        return f"{self.status:<8} {self.text}{fix}"


def of_row(row: Row, lacks: str = "") -> Finding:
    """Convert a row to a finding, with an error if its status is "missing" or "refused".

    Args:
        lacks: beginning of the error's message, if the status is "missing".
    """
    text = f"{row['name']}: {row['detail']}"
    fix = row["fix"]
    status = row["status"]
    error: UserError | None = None
    if status == "missing":
        error = AssetError(lacks + text, hint=fix or None)
    elif status == "refused":
        error = ConfigError(text, hint=fix or None)
    return Finding(status, text, fix, error)
