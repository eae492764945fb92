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
    "replay": "play one episode of a run again: video, and all that env and policy exchanged",
    "export": "write a checkpoint's policy in the original layout of its model",
    "collect": "write expert demonstrations",
    "sft": "train supervised on demonstrations",
    "report": "write a run's report again, or compare several runs",
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
    """The commands, a toy env with a policy for it, and trackers."""
    return [
        ComponentSpec(
            kind="env",
            name="toy",
            target="rlcore.testing.toy_env:make",
            summary="a point in a square, for tests and first steps",
            config="rlcore.testing.toy_settings:ToyEnvConfig",
            spec="rlcore.testing.toy_settings:env_spec",
        ),
        ComponentSpec(
            kind="model",
            name="toy",
            target="rlcore.testing.toy_policy:make",
            summary="a small Gaussian policy, for tests and first steps",
            config="rlcore.testing.toy_settings:ToyModelConfig",
            spec="rlcore.testing.toy_settings:policy_spec",
        ),
        ComponentSpec(
            kind="protocol",
            name="toy_haste",
            target="rlcore.testing.toy_settings:HASTE",
            summary="the toy env with less time",
        ),
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


@hookimpl
def rlcore_config_paths() -> list[str]:
    """Options `env=toy` and `model=toy`."""
    return ["pkg://rlcore.testing.conf"]
