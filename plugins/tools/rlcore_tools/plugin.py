"""Register this package with rlcore. Components are named by strings, so listing is fast."""

from __future__ import annotations

from typing import Any

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec, Kind
from rlcore_tools.observers import rlcore_after_eval as rlcore_after_eval
from rlcore_tools.observers import rlcore_after_rollout as rlcore_after_rollout
from rlcore_tools.observers import rlcore_after_run as rlcore_after_run
from rlcore_tools.observers import rlcore_after_update as rlcore_after_update

RLCORE_API = (0, 1)

COMMANDS = {
    "replay": "repeat one episode of a run: video, observations, actions, log-probs",
    "export": "write a checkpoint's policy in the original layout of its model",
    "report": "write a run's report again, or compare several runs",
    "view": "write a page on an env, a run or a data set: view env=NAME, view RUN, "
    "view collect.path=FILE",
    "open-loop": "compare a policy's actions with recorded ones: open-loop RUN",
    "runs": "list the runs of a folder; show one, compare two, find the best setting",
    "new": "write a package with a component of yours: new KIND NAME",
    "check": "check a plugin or a component against the contract: check KIND NAME",
    "config": "explain a key, print a schema for editors, import a YAML file of RLinf",
}
TRACKERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tensorboard": ("TensorBoardTracker", "event files in the run's folder", ()),
    "wandb": ("WandbTracker", "Weights & Biases", ("wandb",)),
    "swanlab": ("SwanLabTracker", "SwanLab", ("swanlab",)),
}
"""`{name: (class in the module of trackers, summary, packages)}`."""
WRAPPERS: dict[str, tuple[str, str, str | None]] = {
    "action_cost": ("CostlyActions", "ActionCost", None),
    "state_noise": ("NoisyStates", "StateNoise", "noisy_spec"),
}
"""`{name: (target, config, spec)}` of `rlcore_tools.wrappers`."""


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """List the commands, trackers and wrappers of this package."""
    return [
        *(
            ComponentSpec(
                kind="command",
                name=name,
                target=f"rlcore_tools.cli.{name.replace('-', '_')}:main",
                summary=summary,
            )
            for name, summary in COMMANDS.items()
        ),
        *(
            ComponentSpec(
                kind="tracker",
                name=name,
                target=f"rlcore_tools.trackers:{cls}",
                summary=summary,
                packages=packages,
            )
            for name, (cls, summary, packages) in TRACKERS.items()
        ),
        *(
            ComponentSpec(
                kind="wrapper",
                name=name,
                target=f"rlcore_tools.wrappers:{target}",
                config=f"rlcore_tools.wrappers:{config}",
                spec=spec and f"rlcore_tools.wrappers:{spec}",
            )
            for name, (target, config, spec) in WRAPPERS.items()
        ),
    ]


@hookimpl
def rlcore_settings() -> list[str]:
    """Return the settings class of `plugins.tools`."""
    return ["rlcore_tools.settings:ToolsConfig"]


@hookimpl
def rlcore_doctor(config: Any | None) -> list[dict[str, str]]:
    """Return rows on the components that a run chose and that `rlcore check` never checked."""
    from rlcore.plugins.registry import load_plugins
    from rlcore_tools.check import check_log

    if config is None:
        return []
    chosen: set[tuple[Kind, str]] = {
        ("env", config.env.train.env_type),
        ("env", config.env.eval.env_type),
        ("model", config.actor.model.model_type),
        ("algorithm", config.algorithm.name),
    }
    return check_log.rows(load_plugins(), chosen)
