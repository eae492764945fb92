"""Register this package with rlcore. Strings only."""

from __future__ import annotations

from rlcore import hookimpl
from rlcore.contracts.specs import ComponentSpec

RLCORE_API = (0, 4)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """The command, which `-m` of the others is short for."""
    return [
        ComponentSpec(
            kind="command",
            name="sweep",
            target="rlcore_sweeps.command:main",
            summary="play many runs: sweep train EXPERIMENT key=a,b; train ... -m is short for it",
        )
    ]
