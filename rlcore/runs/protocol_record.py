"""Record the protocol of an evaluation, and describe how two protocols differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rlcore.config.differences import differences
from rlcore.utils.text import abbreviate_list, shorten

NOT_MEASURED = (
    "env_type",  # in the field `env`
    "tasks",  # in the field `trials`
    "trials_per_task",
    "total_num_envs",
    "rollout_epoch",
    "num_processes",
    "python",  # interpreter in which the simulator runs; the versions in it are recorded instead
    "enable_offload",
    "allow_training_trials",
    "video_cfg",
    "sentences",  # in the field `said`: the instructions, not the file that they come from
)
"""Keys of an env that are left out of :attr:`EvaluationProtocol.settings`.

They change neither the episodes of an evaluation nor how they are counted, or are recorded in
another field of the protocol.
"""
DIGITS = 16
SIMULATOR = "simulator"
"""The field of a protocol with the versions of the simulator's libraries."""


@dataclass(frozen=True)
class EvaluationProtocol:
    """The rules of an evaluation. Only evaluations with equal protocols are compared.

    Attributes:
        env: name of the env.
        trials: `{task: trial numbers}`; a trial appears once for each pass that plays it.
        max_episode_steps: time limit in env steps.
        num_action_chunks: actions executed per decision.
        sampling: "deterministic" or "stochastic", and the temperature, if one was set.
        settings: keys of the env that affect episodes, rewards or success (:func:`settings_of`).
        facts: cameras, states, actions and render settings.
        said: instruction of each task, `{task: sentence}`, and under "" any other instructions that
            episodes may be given.
        caveat: :attr:`rlcore.contracts.specs.EnvSpec.caveat`.
        simulator: `{name: version}` of the simulator's libraries. Empty if the env names none, or
            if it simulates in no library.
    """

    env: str
    trials: Mapping[str, Sequence[int]]
    max_episode_steps: int
    num_action_chunks: int
    sampling: str
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]
    said: Mapping[str, Any]
    caveat: str = ""
    simulator: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """The protocol as JSON values, without an empty `simulator`."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not self.simulator:
            del values[SIMULATOR]
        return values

    @property
    def digest(self) -> str:
        """The first :data:`DIGITS` hex digits of the SHA-256 of :attr:`values`.

        Every row of an evaluation has this digest, so that rows of other protocols are detected.
        """
        text = json.dumps(self.values, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def settings_of(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an env's keys that are part of the protocol, without an empty
    `wrappers`.

    Args:
        env: values of all keys of the env, by name.
    """
    left_out = {*NOT_MEASURED, *(() if env.get("wrappers") else ("wrappers",))}
    return {name: value for name, value in env.items() if name not in left_out}


def describe_difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Describe the first differences of two nested mappings: `max_episode_steps 20 and 15`.

    At most three differences are shown. Versions of simulators come first, because users rarely
    change them on purpose.

    Args:
        first, second: values or notes of two protocols.
    """
    changes = sorted(differences(first, second), key=lambda change: not _is_simulator(change.path))
    parts = [
        f"{change.path} {' and '.join(shorten(value, 60) for value in change.values)}"
        for change in changes
    ]
    return abbreviate_list(parts, 3)


def _is_simulator(path: str) -> bool:
    return SIMULATOR in path.split(".")
