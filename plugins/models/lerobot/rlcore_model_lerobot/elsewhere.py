"""A policy of LeRobot that acts in a process of another interpreter, for evaluations.

this process: observation -> inputs --frames, state, instruction, keys--> its process: LeRobot
              actions [B, C, A] <----------------------------------------
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from rlcore.contracts.errors import PolicyError
from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_model_lerobot.described import described
from rlcore_model_lerobot.inputs import inputs_of
from rlcore_model_lerobot.messages import Act, Load
from rlcore_model_lerobot.process import PolicyProcess
from rlcore_model_lerobot.settings import LeRobotModelConfig
from rlcore_model_lerobot.spec import cameras_of, policy_spec


class PolicyElsewhere(nn.Module):
    """See :class:`rlcore.contracts.protocols.Policy`. It has no parameters, and does not learn.

    Its process ends with this object, and with this process.

    Raises:
        ConfigError: the policy does not fit the env, or LeRobot refuses its settings.
        CheckpointError: the folder is missing, damaged, or of a type that is not installed there.
        UserError: the interpreter can't be started, or LeRobot can't be imported in it.
    """

    def __init__(self, config: LeRobotModelConfig, env_spec: EnvSpec) -> None:
        super().__init__()
        self.spec = policy_spec(config, env_spec)
        self._cameras = cameras_of(config, env_spec, described(config, env_spec))
        self._device = torch.device("cpu")
        python = config.interpreter()
        assert python is not None
        # a policy from scratch gets the weights that it would have in this process
        load = Load(config, env_spec, seed=torch.initial_seed())
        threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
        self._process = PolicyProcess(python, load, variables=threads)
        weakref.finalize(self, self._process.close)

    def prepare(self, observation: Observation) -> Inputs:
        return inputs_of(observation, self._cameras.values())

    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        """Let the process decide; with and without exploration it is the same."""
        actions = self._process.act(Act(inputs, keys, str(self._device))).actions
        return PolicyOutput(actions, torch.zeros(actions.shape), torch.zeros(len(keys), 0), {})

    def evaluate(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Evaluation:
        self._refuse()

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        self._refuse()

    def sft_loss(
        self, inputs: Mapping[str, Tensor], actions: Tensor, mask: Tensor, keys: RowKeys
    ) -> Tensor:
        self._refuse()

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        self._refuse()

    def save_pretrained(self, path: Path) -> None:
        """Let the process write a folder of LeRobot."""
        self._process.save(path)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"policy": [], "value": []}

    def set_progress(self, update: int) -> None:
        """Do nothing: the policy has no schedule."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PolicyElsewhere:
        """Note the device that the module is moved to; its process computes there from then on."""
        self._device = fn(torch.empty(0)).device
        applied: Any = super()._apply(fn, recurse)
        return applied

    def _refuse(self) -> NoReturn:
        raise PolicyError(self.spec.evaluation_only, hint="rlcore eval")
