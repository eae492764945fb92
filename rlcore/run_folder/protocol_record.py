"""Record the protocol of an evaluation, and compare two of them. Knows no env and no loop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rlcore.config.differences import differences
from rlcore.terminal.text import short, some

NOT_MEASURED = (
    "env_type",  # stands by its name
    "tasks",  # stand with their trials
    "trials_per_task",
    "total_num_envs",
    "rollout_epoch",
    "num_processes",
    "python",  # where simulators run; which versions these are stands in the manifest
    "enable_offload",
    "allow_training_trials",
    "video_cfg",
    "sentences",  # what was said stands there, not the file that it is from
)
"""Keys of an env that change neither what is played in an evaluation nor how it is counted."""
DIGITS = 16
SIMULATOR = "simulator"
"""The field of a protocol that has versions of what simulates."""
UNRECORDED = "not recorded"


@dataclass(frozen=True)
class EvaluationProtocol:
    """Two evaluations with equal protocols may be compared; others never are.

    Attributes:
        env: the env's name.
        trials: `{task: trial numbers}`, each as often as it is visited: once per pass.
        max_episode_steps: time limit in env steps.
        num_action_chunks: actions executed per decision.
        sampling: "deterministic" or "stochastic", and the temperature, if one was set.
        settings: keys of the env that decide what is played and what it is worth.
        facts: cameras, states, actions and what changes pixels.
        said: `{task: sentence}`, and under "" what else episodes may be told.
        caveat: :attr:`rlcore.contracts.specs.EnvSpec.caveat`.
        simulator: versions of what simulates, by name. Empty where an env names no library;
            records of before rlcore kept them have none.
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
        """As JSON has it. An empty `simulator` is left out, so that evaluations of earlier
        versions, which had no such field, can be compared where there is nothing to tell."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not self.simulator:
            del values[SIMULATOR]
        return values

    @property
    def digest(self) -> str:
        """Equal for equal protocols; stands in every row of an evaluation."""
        text = json.dumps(self.values, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def settings_of(env: Mapping[str, Any]) -> dict[str, Any]:
    """Of the values of an env's keys, those that are part of the protocol. No wrappers are left
    out: evaluations of versions that had no such key can be compared."""
    left_out = {*NOT_MEASURED, *(() if env.get("wrappers") else ("wrappers",))}
    return {name: value for name, value in env.items() if name not in left_out}


def describe_difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Where two sets of facts differ, in a few words: `max_episode_steps 20 and 15`. Versions of
    simulators come first: they are what nobody meant to change."""
    found = differences(there, here)
    found.sort(key=lambda each: not _is_simulator(each.path))
    parts = []
    for each in found:
        first, other = (_in_words(each.path, value) for value in each.values)
        parts.append(f"{each.path} {first} and {other}")
    return some(parts, 3)


def _is_simulator(path: str) -> bool:
    return SIMULATOR in path.split(".")


def _in_words(path: str, value: Any) -> str:
    return UNRECORDED if value is None and _is_simulator(path) else short(value, 60)
