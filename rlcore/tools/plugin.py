"""What the tools add to rlcore. Strings only."""

from __future__ import annotations

from rlcore.hookspecs import hookimpl
from rlcore.specs import ComponentSpec

RLCORE_API = (0, 2)

COMMANDS = {
    "report": "write a run's report again, or compare several runs",
    "replay": "play one episode of a run again: video, and all that env and policy exchanged",
    "export": "write a checkpoint's policy in the original layout of its model",
}


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """The commands."""
    return [
        ComponentSpec(
            kind="command", name=name, target=f"rlcore.tools.{name}:main", summary=summary
        )
        for name, summary in COMMANDS.items()
    ]
