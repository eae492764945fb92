"""What core itself brings, through the same door as everybody's plugin."""

from __future__ import annotations

from rlcore.hookspecs import hookimpl
from rlcore.observers import rlcore_after_eval as rlcore_after_eval
from rlcore.observers import rlcore_after_rollout as rlcore_after_rollout
from rlcore.observers import rlcore_after_run as rlcore_after_run
from rlcore.specs import ComponentSpec

RLCORE_API = (0, 2)

COMMANDS = {
    "train": "fine-tune a policy: [demonstrations, SFT,] evaluation, RL, evaluation",
    "resume": "go on with an interrupted run: resume RUN [key=value ...]",
    "eval": "evaluate a checkpoint, or the last checkpoint of a run's folder",
    "collect": "write expert demonstrations",
    "sft": "train supervised on demonstrations",
    "plugins": "list what the installed plugins bring",
    "doctor": "check what this machine lacks",
    "help": "list the commands",
}
TRACKERS = {
    "tensorboard": ("TensorBoardTracker", "event files in the run's folder"),
    "wandb": ("WandbTracker", "Weights & Biases"),
    "swanlab": ("SwanLabTracker", "SwanLab"),
}
"""Besides metrics.jsonl, which is always written."""


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """The commands, and trackers."""
    return [
        *(
            ComponentSpec(
                kind="tracker",
                name=name,
                target=f"rlcore.track.trackers:{attribute}",
                summary=summary,
            )
            for name, (attribute, summary) in TRACKERS.items()
        ),
        *(
            ComponentSpec(
                kind="command", name=name, target=f"rlcore.cli.{name}:main", summary=summary
            )
            for name, summary in COMMANDS.items()
        ),
    ]
