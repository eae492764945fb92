"""Define the kinds of workers, and which arguments of their methods are folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlcore.workers.actor_worker import ActorWorker
from rlcore.workers.env_worker import EnvWorker
from rlcore.workers.fused_worker import FusedWorker
from rlcore.workers.rollout_worker import RolloutWorker


@dataclass(frozen=True)
class Folder:
    """An argument of a call that names a folder of the run.

    Attributes:
        argument: its name.
        written: whether the call writes there; else it reads.
        files: those that it reads, as a pattern within the folder.
        kept: whether the worker may read it again later.
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
"""The class of each role's workers; a fused worker is asked as either of its components. A backend
calls its methods by name, for the typed ones of :class:`rlcore.workers.group.WorkerGroup`."""
START: dict[str, dict[str, str]] = {"env": {"side": "train"}}
"""Arguments of a role's `start`; none where it isn't named."""
FOLDERS = {
    "save": Folder("path", written=True),
    "save_learner": Folder("path", written=True),
    "load": Folder("path", kept=True),  # a policy may copy files from where it began
    "load_learner": Folder("path", files="*"),  # the policy lies below
    "try_learner": Folder("path", files="*"),
    "recall": Folder("path", files="*"),
    "supervised": Folder("data"),
    "teach": Folder("data"),
}
"""By the name of the call."""


def has_component(role: str, component: str) -> bool:
    """Whether `role` includes `component`: "env", "rollout" or "actor"."""
    return component in role.split("+")
