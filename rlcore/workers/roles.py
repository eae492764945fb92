"""Define the kinds of workers, and the methods that may be called on each.

An unknown name is a bug of the caller. `calls` return at once; `talks` are conversations with other
workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlcore.workers.actor_worker import ActorWorker
from rlcore.workers.env_worker import EnvWorker
from rlcore.workers.fused_worker import FusedWorker
from rlcore.workers.policy_worker import PolicyWorker
from rlcore.workers.rollout_worker import RolloutWorker

Methods = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Role:
    """One kind of worker: how it is made from its settings, and its methods by name."""

    make: type[Any]
    calls: Methods
    talks: Methods


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


_POLICY: Methods = {
    "start": PolicyWorker.start,
    "save": PolicyWorker.save,
    "checksums": PolicyWorker.checksums,
    "check_rounding": PolicyWorker.check_rounding,
    "suspend": PolicyWorker.suspend,
    "stop": PolicyWorker.stop,
}
_ROLLOUT = Role(
    RolloutWorker,
    calls={**_POLICY, "load": RolloutWorker.load},
    talks={
        "converse": RolloutWorker.converse,
        "pull": RolloutWorker.pull,
        "hand_over": RolloutWorker.hand_over,
    },
)
_ACTOR = Role(
    ActorWorker,
    calls={
        **_POLICY,
        "save": ActorWorker.save,
        "load": ActorWorker.load,
        "rendezvous": ActorWorker.rendezvous,
        "join": ActorWorker.join,
        "update": ActorWorker.update,
        "remarks": ActorWorker.remarks,
        "supervised": ActorWorker.supervised,
        "teach": ActorWorker.teach,
        "save_learner": ActorWorker.save_learner,
        "load_learner": ActorWorker.load_learner,
        "version": ActorWorker.version,
    },
    talks={"publish": ActorWorker.publish, "take_over": ActorWorker.take_over},
)
ROLES: dict[str, Role] = {
    "env": Role(
        EnvWorker,
        calls={
            "start": EnvWorker.start,
            "demonstrate": EnvWorker.demonstrate,
            "incidents": EnvWorker.incidents,
            "release": EnvWorker.release,
            "suspend": EnvWorker.suspend,
            "process_id": EnvWorker.process_id,
            "stop": EnvWorker.stop,
        },
        talks={"converse": EnvWorker.converse},
    ),
    "rollout": _ROLLOUT,
    "actor": _ACTOR,
    "rollout+actor": Role(
        FusedWorker,
        calls={**_ROLLOUT.calls, **_ACTOR.calls, "load": FusedWorker.load},
        talks={**_ROLLOUT.talks, **_ACTOR.talks},
    ),
}
"""By the name a roster gives the role; a fused worker is asked as either of its components."""
START: dict[str, dict[str, str]] = {"env": {"side": "train"}}
"""Arguments of a role's `start`; none where it isn't named."""
FOLDERS = {
    "save": Folder("path", written=True),
    "save_learner": Folder("path", written=True),
    "load": Folder("path", kept=True),  # a policy may copy files from where it began
    "load_learner": Folder("path", files="*"),  # the policy lies below
    "supervised": Folder("data"),
    "teach": Folder("data"),
}
"""By the name of the call."""


def has_component(role: str, component: str) -> bool:
    """Whether `role` includes `component`: "env", "rollout" or "actor"."""
    return component in role.split("+")
