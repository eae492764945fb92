"""A Gaussian policy small enough to train in a second.

It is the smallest complete implementation of :class:`rlcore.contracts.protocols.Policy`, to test
against and to copy from when writing a policy. It decides in units of the action range, in which
each entry is in [-1, 1]: action = middle + half u, u ~ N(mean, std). Log-probs are those of u, from
before the env clips the action.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_testing.toy_settings import (
    GOALS,
    LARGEST_SIDE,
    WEIGHTS,
    ToyModelConfig,
    input_size,
    policy_spec,
)

TASK_NUMBERS = {task.replace("-", " the ") + " side": number for number, task in enumerate(GOALS)}
UNKNOWN = -1  # number of an instruction that is not the toy env's


def make(config: ToyModelConfig, *, env_spec: EnvSpec) -> ToyPolicy:
    """Build the policy, with saved weights if a path is set; the factory the plugin registers.

    Raises:
        CheckpointError: `config.model_path` holds no toy policy.
    """
    policy = ToyPolicy(config, env_spec)
    if config.model_path is not None:
        # the spec was checked: at most a critic is missing, which then keeps its fresh weights
        policy.load_state_dict(load_file(Path(config.model_path) / WEIGHTS), strict=False)
    return policy


class ToyPolicy(nn.Module):
    """A Gaussian MLP policy; see :class:`rlcore.contracts.protocols.Policy`."""

    def __init__(self, config: ToyModelConfig, env_spec: EnvSpec) -> None:
        super().__init__()
        self.spec = policy_spec(config, env_spec)
        self._config = config
        low, high = torch.tensor([env_spec.action_low, env_spec.action_high])
        self._middle = (low + high) / 2
        self._half = (high - low) / 2
        inputs = input_size(env_spec)
        outputs = config.num_action_chunks * env_spec.action_dim
        self.body = nn.Sequential(
            nn.Linear(inputs, config.hidden),
            nn.Tanh(),
            nn.Linear(config.hidden, config.hidden),
            nn.Tanh(),
        )
        self.mean = nn.Linear(config.hidden, outputs)
        self.log_std = nn.Parameter(torch.full((outputs,), math.log(config.init_std)))
        values = self.spec.value_dim
        self.value = nn.Linear(config.hidden + 1, values) if values else None

    def prepare(self, observation: Observation) -> Inputs:
        tasks = [TASK_NUMBERS.get(text, UNKNOWN) for text in observation["task_descriptions"]]
        no_camera = np.zeros((len(tasks), 0, 0, 3), dtype=np.uint8)
        return {
            "image": _shrunk(next(iter(observation["cameras"].values()), no_camera)),
            "state": observation["states"],
            "task": np.array(tasks, dtype=np.int64),
            "elapsed": observation["elapsed"],
        }

    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}
        noise = torch.from_numpy(keys.normal("action", self._chunk_shape)).to(self._device)
        with torch.no_grad():
            mean, std, values = self._forward(tensors)
            units = mean if deterministic else mean + std * noise
            logprobs = torch.zeros_like(mean) if deterministic else _logprob(units, mean, std)
        actions = self._middle + self._half * units.cpu()
        return PolicyOutput(actions.numpy(), logprobs, values, {"actions": units})

    def evaluate(
        self, inputs: Mapping[str, torch.Tensor], replay: Mapping[str, torch.Tensor]
    ) -> Evaluation:
        mean, std, values = self._forward(inputs)
        entropy = 0.5 * torch.log(2 * math.pi * math.e * std**2)
        logprobs = _logprob(replay["actions"].to(self._device), mean, std)
        return Evaluation(logprobs, values, entropy.expand_as(mean))

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        index = np.asarray(frame_index)
        steps = demonstration.frame_steps[index]
        length = len(demonstration.actions)
        horizon = self.spec.action_horizon
        ahead = steps[:, None] + np.arange(horizon)
        observation: Observation = {
            "cameras": {name: f[index] for name, f in demonstration.frames.items()},
            "states": demonstration.states[steps],
            "task_descriptions": [demonstration.instruction] * len(index),
            "elapsed": np.zeros(len(index), dtype=np.float32),
        }
        targets = demonstration.actions[np.minimum(ahead, length - 1)]
        return self.prepare(observation), targets, ahead < length

    def sft_loss(
        self,
        inputs: Mapping[str, torch.Tensor],
        actions: torch.Tensor,
        mask: torch.Tensor,
        keys: RowKeys,
    ) -> torch.Tensor:
        mean, std, _ = self._forward(inputs)
        # std is for exploration and says nothing about the expert: only the mean is fitted
        units = ((actions.cpu() - self._middle) / self._half).to(self._device)
        mask = mask.to(self._device)
        loss = (-_logprob(units, mean, std.detach())).mean(-1)
        return (loss * mask).sum(-1) / mask.sum(-1)

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        """Do nothing: the env's range scales actions, and states are of order one."""

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        groups: dict[str, list[nn.Parameter]] = {"policy": [], "value": []}
        for name, parameter in self.named_parameters():
            groups["value" if name.startswith("value.") else "policy"].append(parameter)
        return groups

    def set_progress(self, update: int) -> None:
        """Do nothing: the policy has no annealed settings."""

    def blocks(self) -> Sequence[nn.Module]:
        return [self.body]

    def save_pretrained(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        save_file(dict(self.state_dict()), path / WEIGHTS)
        # model_path is dropped: after a resume the weights come from another folder
        settings = dataclasses.asdict(dataclasses.replace(self._config, model_path=None))
        (path / "config.json").write_text(json.dumps(settings, indent=2))

    @property
    def _device(self) -> torch.device:
        return self.log_std.device

    @property
    def _chunk_shape(self) -> tuple[int, int]:
        return self.spec.num_action_chunks, self.spec.action_dim

    def _forward(
        self, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return mean `[B, C, A]`, std `[C, A]`, values `[B, V]`, on the parameters' device."""
        inputs = {name: tensor.to(self._device) for name, tensor in inputs.items()}
        tasks = torch.arange(len(GOALS), device=self._device)
        task = (inputs["task"][:, None] == tasks).float()
        pixels = inputs["image"].flatten(1).float() / 255.0
        hidden = self.body(torch.cat([pixels, inputs["state"], task], dim=1))
        mean = self.mean(hidden).unflatten(1, self._chunk_shape)
        if self.value is None:
            values = mean.new_zeros(len(mean), 0)
        else:
            values = self.value(torch.cat([hidden, inputs["elapsed"][:, None]], dim=1))
        return mean, self.log_std.exp().unflatten(0, self._chunk_shape), values


def _shrunk(frames: np.ndarray) -> np.ndarray:
    """Return at most LARGEST_SIDE lines and columns of images uint8 `[B, h, w, 3]`."""
    if max(frames.shape[1:3]) <= LARGEST_SIDE:
        return frames
    rows, columns = (
        np.linspace(0, side - 1, min(side, LARGEST_SIDE)).round().astype(int)
        for side in frames.shape[1:3]
    )
    return frames[:, rows[:, None], columns]


def _logprob(units: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """Return log N(units; mean, std), elementwise."""
    return -0.5 * ((units - mean) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)
