"""Runs of MetaWorld and a tiny π0 whose every decision and batch is written down, on any backend.

The recorder takes the place of policy and algorithm in the plan of a run and hands all calls on to
them. What it saw lies in a folder, a file a call, so that it does not matter which process saw it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rlcore_algo_ppo.ppo import PPO
from rlcore_algo_ppo.settings import PPOConfig
from rlcore_model_openpi.policy import OpenPIPolicy
from rlcore_model_openpi.policy import make as make_openpi
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_policy_gradient.minibatch import Advantages
from torch import Tensor

from rlcore.api import Assembly
from rlcore.contracts.protocols import Inputs, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore.contracts.trajectory import Trajectory
from rlcore.rollout.batch_invariance import MARK
from rlcore.rollout.decide import PAD_KEY
from rlcore.workers.policy_worker import PolicyWorkerSettings

Key = tuple[int | str, ...]
"""(root seed, phase, update, task, trial, replica, decision)."""

FILES = count()  # with the process id: a name nobody else takes


@dataclass(frozen=True)
class Decision:
    """One row of one forward: what it saw, what was drawn for it, what came out. By name."""

    seen: dict[str, Tensor]
    drawn: dict[str, Tensor]
    decided: dict[str, Tensor]


@dataclass
class Record:
    """What happened in a run: decisions by key, and by update the batch that was trained on."""

    decisions: dict[Key, Decision]
    batches: list[Trajectory]

    @classmethod
    def read(cls, folder: Path) -> Record:
        """No decision may have been made twice."""
        decisions: dict[Key, Decision] = {}
        for path in folder.glob("act-*"):
            call = torch.load(path)
            for row, key in enumerate(call.pop("keys")):
                if key == PAD_KEY or key[0] == MARK:  # looked at before the run
                    continue
                assert key not in decisions, f"decided twice: {key}"
                decisions[key] = Decision(
                    **{
                        part: {n: t[row] for n, t in arrays.items()}
                        for part, arrays in call.items()
                    }
                )
        batches = [Trajectory(**torch.load(path)) for path in folder.glob("batch-*")]
        return cls(decisions, sorted(batches, key=lambda batch: int(batch.policy_version.max())))

    @property
    def starts(self) -> dict[Key, Decision]:
        """The first decisions of all episodes: the starts, as the policy sees them."""
        return {key: decision for key, decision in self.decisions.items() if key[-1] == 0}


def recorded(assembly: Assembly, folder: Path) -> Assembly:
    """The same run, with the recorder in place of policy and algorithm."""
    folder.mkdir(parents=True)

    def settings(plain: PolicyWorkerSettings) -> PolicyWorkerSettings:
        model = _extend(RecordedModel, plain.actor.model, folder)
        return replace(
            plain,
            policy_target=f"{__name__}:make_policy",
            algorithm_target=f"{__name__}:RecordedPPO",
            actor=replace(plain.actor, model=model),
            algorithm=_extend(RecordedPPOConfig, plain.algorithm, folder),
        )

    members = {
        role: ones
        if role == "env"
        else tuple(replace(m, settings=settings(m.settings)) for m in ones)
        for role, ones in assembly.worker_specs.members.items()
    }
    return replace(assembly, worker_specs=replace(assembly.worker_specs, members=members))


# -- in the workers -----------------------------------------------------------------------------


@dataclass
class RecordedModel(OpenPIModelConfig):
    record_to: str = ""


@dataclass
class RecordedPPOConfig(PPOConfig):
    record_to: str = ""


def make_policy(config: RecordedModel, *, env_spec: EnvSpec) -> OpenPIPolicy:
    """The policy, writing down each call of `act`."""
    plain = {one.name: vars(config)[one.name] for one in fields(OpenPIModelConfig)}
    policy = make_openpi(OpenPIModelConfig(**plain), env_spec=env_spec)
    policy.act = _recording(policy.act, Path(config.record_to))  # type: ignore[method-assign]
    return policy


class RecordedPPO(PPO):
    """PPO, writing down each batch."""

    def __init__(self, config: RecordedPPOConfig) -> None:
        super().__init__(config)
        self._folder = Path(config.record_to)

    def advantages(self, trajectory: Trajectory) -> Advantages:
        _write(self._folder, "batch", vars(trajectory))
        return super().advantages(trajectory)


@dataclass(frozen=True)
class Witness(RowKeys):
    """Keys that remember what was drawn with them."""

    drawn: dict[str, Tensor] = field(default_factory=dict)

    def normal(self, *draw: Any) -> np.ndarray:
        return self._remember(draw[0], super().normal(*draw))

    def uniform(self, *draw: Any) -> np.ndarray:
        return self._remember(draw[0], super().uniform(*draw))

    def integers(self, *draw: Any) -> np.ndarray:
        return self._remember(draw[0], super().integers(*draw))

    def beta(self, *draw: Any) -> np.ndarray:
        return self._remember(draw[0], super().beta(*draw))

    def _remember(self, stream: str, rows: np.ndarray) -> np.ndarray:
        self.drawn[stream] = torch.from_numpy(rows.copy())
        return rows


def _recording(act: Callable[..., PolicyOutput], folder: Path) -> Callable[..., PolicyOutput]:
    def recording(inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        witness = Witness(keys.keys)
        output = act(inputs, witness, deterministic=deterministic)
        call = {
            "keys": keys.keys,
            "seen": {name: torch.from_numpy(array) for name, array in inputs.items()},
            "drawn": witness.drawn,
            "decided": {
                "actions": torch.from_numpy(output.actions),
                "logprobs": output.logprobs,
                "values": output.values,
                **output.replay,
            },
        }
        _write(folder, "act", call)
        return output

    return recording


def _extend(kind: type[Any], settings: object, folder: Path) -> Any:
    values = {one.name: vars(settings)[one.name] for one in fields(kind) if one.name != "record_to"}
    return kind(**values, record_to=str(folder))


def _write(folder: Path, what: str, content: Mapping[str, Any]) -> None:
    plain = {name: dict(it) if isinstance(it, Mapping) else it for name, it in content.items()}
    torch.save(plain, folder / f"{what}-{os.getpid()}-{next(FILES)}")
