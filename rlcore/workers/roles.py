"""Define the worker class of each role, and which arguments of their methods are folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlcore.workers.actor_worker import ActorWorker
from rlcore.workers.env_worker import EnvWorker
from rlcore.workers.fused_worker import FusedWorker
from rlcore.workers.rollout_worker import RolloutWorker


@dataclass(frozen=True)
class Folder:
    """Argument of a worker's method that is the path of a folder of the run.

    A backend copies these folders to and from nodes that don't share the run's file system.

    Attributes:
        argument: name of the argument.
        written: whether the method writes to the folder; otherwise it reads.
        files: glob pattern, within the folder, of the files that the method reads.
        kept: whether the worker may read the folder again after the call.
    """

    argument: str
    written: bool = False
    files: str = "**/*"
    kept: bool = False


ROLES: dict[str, type[Any]] = {
    "env": EnvWorker,
    "rollout": RolloutWorker,
    "actor": ActorWorker,
    "rollout+actor": FusedWorker,
}
"""Worker class of each role; the fused worker's role names both of its components. A backend calls
methods by name, on behalf of the typed methods of :class:`rlcore.workers.group.WorkerGroup`."""
START: dict[str, dict[str, str]] = {"env": {"side": "train"}}
"""Arguments of `start` by role; roles that are missing take none."""
FOLDERS = {
    "save": Folder("path", written=True),
    "save_learner": Folder("path", written=True),
    "load": Folder("path", kept=True),  # saving a policy may copy files from here
    "load_learner": Folder("path", files="*"),  # without the policy, which is in a subfolder
    "try_learner": Folder("path", files="*"),
    "recall": Folder("path", files="*"),
    "supervised": Folder("data"),
    "teach": Folder("data"),
}
"""The folder argument of each method that has one, by the name of the method."""


def has_component(role: str, component: str) -> bool:
    """Return whether a role includes a component: "env", "rollout" or "actor"."""
    return component in role.split("+")
