"""Register core's own commands and backend, by the same hooks as any plugin."""

from __future__ import annotations

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import hookimpl
from rlcore.contracts.version import API_VERSION

RLCORE_API = API_VERSION

COMMANDS = {
    "train": "fine-tune a policy: [demonstrations, SFT,] evaluation, RL, evaluation",
    "resume": "resume an interrupted run: resume RUN [key=value ...]",
    "eval": "evaluate a checkpoint, or the last checkpoint of a run's folder",
    "plugins": "list what the installed plugins provide",
    "doctor": "check what is missing on this machine",
    "help": "list the commands",
}
BACKENDS = {"local": "all workers in one process, without any plugin: pdb works"}


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Return the specs of core's commands and of the backend `local`."""
    return [
        *(
            ComponentSpec(
                kind="command", name=name, target=f"rlcore.cli.{name}:main", summary=summary
            )
            for name, summary in COMMANDS.items()
        ),
        *(
            ComponentSpec(
                kind="backend",
                name=name,
                target=f"rlcore.workers.{name}_group:LocalBackend",
                summary=summary,
            )
            for name, summary in BACKENDS.items()
        ),
    ]
