"""Let a policy of LeRobot act and learn as a policy of rlcore.

    frames, state, instruction -> LeRobot's names -> its preprocessor -> its policy
    -> its postprocessor -> actions [B, C, A] in the env's units

LeRobot's policies execute an action per call, from a queue that one forward fills. A decision is
that forward after a reset, and the C actions that the queue then gives. They have no log-probs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rlcore_weights.chunks import demonstrated
from torch import Tensor, nn

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_model_lerobot import statistics
from rlcore_model_lerobot.described import ACTION, STATE, described
from rlcore_model_lerobot.draws import drawing_from
from rlcore_model_lerobot.inputs import decoded, image_name, inputs_of
from rlcore_model_lerobot.library import LeRobotPolicyParts, build, load
from rlcore_model_lerobot.settings import LeRobotModelConfig
from rlcore_model_lerobot.spec import cameras_of, policy_spec

EXECUTED = "executed"
"""Name under which the actions of a decision are stored."""


def make(config: LeRobotModelConfig, *, env_spec: EnvSpec) -> LeRobotPolicy:
    """Load the policy in `model_path`, or build one, in this process.

    Raises:
        ConfigError: the policy does not fit the env, or LeRobot refuses its settings.
        CheckpointError: the folder is missing, damaged, or of a type that is not installed.
    """
    spec = policy_spec(config, env_spec)
    policy = described(config, env_spec)
    if config.model_path is None:
        theirs = build(config, policy, statistics.of_env(policy, env_spec))
    else:
        theirs = load(config, Path(config.model_path))
    return LeRobotPolicy(
        spec,
        theirs,
        cameras_of(config, env_spec, policy),
        env_spec,
    )


class LeRobotPolicy(nn.Module):
    """A policy of LeRobot; see :class:`rlcore.contracts.protocols.Policy`.

    Args:
        spec: facts of the policy.
        theirs: LeRobot's module and processors.
        cameras: camera of the env for each picture, `{feature: camera}`.
        env: gives the time limit and the range of actions.
    """

    def __init__(
        self,
        spec: PolicySpec,
        theirs: LeRobotPolicyParts,
        cameras: Mapping[str, str],
        env: EnvSpec,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.policy = theirs.policy
        self._before = theirs.before
        self._after = theirs.after
        self._cameras = dict(cameras)
        self._time_limit = env.max_episode_steps
        self._half_range = (np.asarray(env.action_high) - np.asarray(env.action_low)) / 2

    # -- acting ---------------------------------------------------------------------------------

    def prepare(self, observation: Observation) -> Inputs:
        """Return frames, the state, and the instruction as bytes of UTF-8.

        Raises:
            ConfigError: an instruction is too long.
        """
        return inputs_of(observation, self._cameras.values())

    @torch.no_grad()
    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        """Decide as LeRobot does after a reset; with and without exploration it is the same."""
        batch = self._observed({name: torch.from_numpy(a) for name, a in inputs.items()})
        chunks = self.spec.num_action_chunks
        with drawing_from(keys, self._device):
            self.policy.eval()
            self.policy.reset()
            chosen = [self._after(self.policy.select_action(dict(batch))) for _ in range(chunks)]
        actions = torch.stack(chosen, dim=1).float().cpu()
        scores = self._nothing(len(keys))
        return PolicyOutput(actions.numpy(), scores.logprobs, scores.values, {EXECUTED: actions})

    def evaluate(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Evaluation:
        """Return zeros: the policy has no log-probs, values or entropy."""
        return self._nothing(len(replay[EXECUTED]))

    # -- learning -------------------------------------------------------------------------------

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        observation, actions, mask = demonstrated(
            demonstration, frame_index, self.spec.action_horizon, self._time_limit
        )
        return self.prepare(observation), actions, mask

    def sft_loss(
        self, inputs: Mapping[str, Tensor], actions: Tensor, mask: Tensor, keys: RowKeys
    ) -> Tensor:
        """Return LeRobot's own loss of the batch for each of its rows, `[B]`.

        LeRobot reduces to one number, whose gradient is that of the mean over the rows.

        Raises:
            ConfigError: LeRobot trains this type on other steps than those from the current one on.
        """
        steps = self.policy.config.action_delta_indices
        if list(steps or ()) != list(range(self.spec.action_horizon)):
            raise ConfigError(
                f"{self.spec.name} can't be trained: LeRobot trains it on the actions of steps "
                f"{steps}, rlcore on the {self.spec.action_horizon} from the current one on",
                hint="sft.enabled=false, runner.only_eval=true",
            )
        batch = self._observed(inputs, {ACTION: actions.cpu(), "action_is_pad": ~mask.cpu()})
        if self.policy.config.observation_delta_indices is not None:
            for name in {STATE, *self._cameras} & batch.keys():
                batch[name] = batch[name].unsqueeze(1)  # one step of a history
        with drawing_from(keys, self._device):
            self.policy.train()
            _freeze_running_statistics(self.policy)
            loss, _ = self.policy.forward(batch)
        return loss.float().expand(len(keys))

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        """Fit the statistics of states and actions; those of pictures remain."""
        stats = statistics.of_demonstrations(demonstrations, self._half_range)
        theirs = LeRobotPolicyParts(self.policy, self._before, self._after).with_stats(stats)
        self._before = theirs.before
        self._after = theirs.after

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return {"policy": trained, "value": []}

    def set_progress(self, update: int) -> None:
        """Do nothing: the policy has no schedule."""

    def save_pretrained(self, path: Path) -> None:
        """Write a folder of LeRobot: configuration, weights and both processors."""
        LeRobotPolicyParts(self.policy, self._before, self._after).save(path)

    # -- parts ----------------------------------------------------------------------------------

    def _observed(
        self, inputs: Mapping[str, Tensor], further: Mapping[str, Tensor] | None = None
    ) -> dict[str, Any]:
        """Return LeRobot's batch of B rows after its preprocessor, on the policy's device.

        Args:
            inputs: inputs as :meth:`prepare` makes them.
            further: tensors to process with them, by LeRobot's names.
        """
        batch: dict[str, Any] = {
            feature: inputs[image_name(number)].cpu().movedim(-1, 1).float() / 255
            for number, feature in enumerate(self._cameras)
        }
        if self.spec.state_dim:
            batch[STATE] = inputs["state"].cpu()
        batch["task"] = [decoded(row) for row in inputs["task"].cpu().numpy()]
        processed = self._before({**batch, **(further or {})})
        device = self._device
        return {
            name: value.to(device) if isinstance(value, Tensor) else value
            for name, value in processed.items()
        }

    def _nothing(self, rows: int) -> Evaluation:
        """Return log-probs, values and entropy of B decisions: zeros."""
        zeros = torch.zeros(rows, self.spec.num_action_chunks, self.spec.action_dim)
        zeros = zeros.to(self._device)
        return Evaluation(zeros, zeros.new_zeros(rows, 0), zeros.new_zeros(rows, 1, 1))

    @property
    def _device(self) -> torch.device:
        return next(self.policy.parameters()).device


def _freeze_running_statistics(module: nn.Module) -> None:
    """Let batch normalisation use its stored statistics, so that a row does not change others."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()
