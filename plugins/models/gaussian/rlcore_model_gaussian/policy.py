"""A squashed Gaussian policy: images, state and instruction -> features -> mean and std of a chunk.

    u ~ N(mean, std),  action = middle + half tanh(u)       middle, half: of the env's range

Log-probs are those of tanh(u), the action in units of its range (SAC, Haarnoja et al. 2018, arXiv
1812.05905, appendix C). The std is learned, and depends on the inputs.

Legend: B rows, C actions of a chunk, A entries.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from rlcore_off_policy.critic import ActionRange, layers
from rlcore_off_policy.encoder import Encoder
from rlcore_weights.chunks import demonstrated
from rlcore_weights.headers import check_fit, read_headers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_model_gaussian.settings import SETTINGS, WEIGHTS, WORDS, GaussianConfig, policy_spec

UNSQUASHED = "unsquashed"
"""Name under which u is stored: atanh of an action near the end of its range would lose it."""
_LOG_STD = (-5.0, 2.0)
_MIN_STD = 1e-2  # of a state entry, in env units: in few demonstrations one may hardly move
_LARGEST = 10.0  # absolute value of a normalised state entry
_VOCABULARY = 1024
_CRITIC = ("value_encoder", "value")  # modules that a policy of supervised training lacks


def make(config: GaussianConfig, *, env_spec: EnvSpec) -> GaussianPolicy:
    """Build the policy, with saved weights if a path is set; the factory that the plugin names.

    Raises:
        ConfigError: the env has neither a camera nor a state.
        CheckpointError: `config.model_path` holds no such policy, or one of other sizes.
    """
    policy = GaussianPolicy(config, env_spec)
    if config.model_path is not None:
        file = Path(config.model_path) / WEIGHTS
        shapes = {name: tuple(tensor.shape) for name, tensor in policy.state_dict().items()}
        critic = {name for name in shapes if name.partition(".")[0] in _CRITIC}
        hint = "check the keys of actor.model"
        check_fit(file, read_headers(file), shapes, hint=hint, drawn=critic)
        policy.load_state_dict(load_file(file), strict=False)  # a missing critic is drawn
    return policy


class GaussianPolicy(nn.Module):
    """A squashed Gaussian policy; see :class:`rlcore.contracts.protocols.ReparameterizedPolicy` and
    :class:`rlcore.contracts.protocols.EncodingPolicy`.

    The critic has an encoder of its own, so that its loss does not move the policy's features.
    """

    state_mean: Tensor
    state_std: Tensor

    def __init__(self, config: GaussianConfig, env_spec: EnvSpec) -> None:
        super().__init__()
        self.spec = policy_spec(config, env_spec)
        self._config = config
        self._time_limit = env_spec.max_episode_steps
        self._shape = (self.spec.num_action_chunks, self.spec.action_dim)
        self.range = ActionRange(env_spec)
        self.register_buffer("state_mean", torch.zeros(env_spec.state_dim))
        self.register_buffer("state_std", torch.ones(env_spec.state_dim))
        inputs = self.prepare(_blank_observation(env_spec))
        width = config.features
        hidden = tuple(config.hidden)
        entries = math.prod(self._shape)
        self.encoder = Encoder(inputs, width=width)
        self.head = layers(self.encoder.size, hidden, 2 * entries)
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        nn.init.constant_(last.bias[entries:], math.log(config.init_std))
        self.value_encoder: Encoder | None = None
        self.value: nn.Sequential | None = None
        if self.spec.value_dim:
            self.value_encoder = Encoder(inputs, width=width, scalars=config.critic_elapsed)
            self.value = layers(self.value_encoder.size, hidden, 1)

    def prepare(self, observation: Observation) -> Inputs:
        mean = self.state_mean.cpu().numpy()
        std = self.state_std.cpu().numpy()
        states = ((observation["states"] - mean) / std).clip(-_LARGEST, _LARGEST)
        frames = list(observation["cameras"].values())[: self.spec.num_images]
        return {
            **{f"image{number}": array for number, array in enumerate(frames)},
            "state": states.astype(np.float32),
            "words": np.stack([_words(text) for text in observation["task_descriptions"]]),
            "elapsed": observation["elapsed"],
        }

    @torch.no_grad()
    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}
        mean, log_std = self._gaussian(tensors)
        unsquashed = mean if deterministic else self._draw(mean, log_std, keys)
        logprobs = _logprob(unsquashed, mean, log_std)
        return PolicyOutput(
            self.range.of_env(unsquashed.tanh()).cpu().numpy(),
            torch.zeros_like(logprobs) if deterministic else logprobs,
            self._values(tensors),
            {UNSQUASHED: unsquashed},
        )

    def sample(self, inputs: Mapping[str, Tensor], keys: RowKeys) -> tuple[Tensor, Tensor]:
        mean, log_std = self._gaussian(inputs)
        unsquashed = self._draw(mean, log_std, keys)
        return self.range.of_env(unsquashed.tanh()), _logprob(unsquashed, mean, log_std)

    def evaluate(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Evaluation:
        """Return log-probs, values, and the entropy before squashing, which has no closed form
        after it."""
        mean, log_std = self._gaussian(inputs)
        unsquashed = replay[UNSQUASHED].to(mean.device)
        entropy = log_std + 0.5 * math.log(2 * math.pi * math.e)
        return Evaluation(_logprob(unsquashed, mean, log_std), self._values(inputs), entropy)

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        horizon = self.spec.action_horizon
        observation, actions, mask = demonstrated(
            demonstration, frame_index, horizon, self._time_limit
        )
        return self.prepare(observation), actions, mask

    def sft_loss(
        self, inputs: Mapping[str, Tensor], actions: Tensor, mask: Tensor, keys: RowKeys
    ) -> Tensor:
        """Return the mean squared error of the deterministic action in units of its range, `[B]`.

        The std is for exploration and says nothing about the expert, so it is not fitted. A
        likelihood would need atanh of actions at the ends of their range, which is infinite.
        """
        mean, _ = self._gaussian(inputs)
        error = mean.tanh() - self.range.units(actions.to(mean.device))
        weight = mask.to(mean.device, torch.float32)
        return (error.square().mean(-1) * weight).sum(1) / weight.sum(1)

    def frozen_encoder(self) -> nn.Module:
        return copy.deepcopy(self.encoder).requires_grad_(False)

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        states = np.concatenate([demonstration.states for demonstration in demonstrations])
        self.state_mean.copy_(torch.from_numpy(states.mean(0)))
        self.state_std.copy_(torch.from_numpy(states.std(0).clip(min=_MIN_STD)))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        groups: dict[str, list[nn.Parameter]] = {"policy": [], "value": []}
        for name, parameter in self.named_parameters():
            groups["value" if name.startswith("value") else "policy"].append(parameter)
        return groups

    def set_progress(self, update: int) -> None:
        """Do nothing: the policy has no schedule."""

    def save_pretrained(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        save_file(dict(self.state_dict()), path / WEIGHTS)
        # model_path is dropped: after a resume the weights come from another folder
        settings = dataclasses.asdict(dataclasses.replace(self._config, model_path=None))
        settings["num_images_in_input"] = self.spec.num_images or None
        (path / SETTINGS).write_text(json.dumps(settings, indent=2))

    def _gaussian(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return mean and log std before squashing, `[B, C, A]` each."""
        mean, log_std = self.head(self.encoder(inputs)).chunk(2, dim=1)
        return mean.unflatten(1, self._shape), log_std.clamp(*_LOG_STD).unflatten(1, self._shape)

    def _draw(self, mean: Tensor, log_std: Tensor, keys: RowKeys) -> Tensor:
        noise = torch.from_numpy(keys.normal("action", self._shape)).to(mean.device)
        return mean + log_std.exp() * noise

    def _values(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the values `[B, V]`."""
        if self.value_encoder is None or self.value is None:
            return self.state_mean.new_zeros(len(inputs["elapsed"]), 0)
        values: Tensor = self.value(self.value_encoder(inputs))
        return values


def _logprob(unsquashed: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return log pi(tanh(u)) = log N(u; mean, std) - log(1 - tanh(u)^2), elementwise.

    The last term is 2 (log 2 - |u| - log(1 + exp(-2 |u|))), exact also where tanh rounds to 1.
    """
    drawn = (unsquashed - mean) * (-log_std).exp()
    size = unsquashed.abs()
    slope = 2 * (math.log(2.0) - size - torch.log1p((-2 * size).exp()))
    return -0.5 * drawn.square() - log_std - 0.5 * math.log(2 * math.pi) - slope


def _words(text: str) -> np.ndarray:
    """Return an id for each of the first words of an instruction, int16 `[WORDS]`; 0: no word."""
    ids = np.zeros(WORDS, dtype=np.int16)
    words = text.lower().split()[:WORDS]
    ids[: len(words)] = [1 + crc32(word.encode()) % (_VOCABULARY - 1) for word in words]
    return ids


def _blank_observation(env: EnvSpec) -> Observation:
    """Return an observation of one row of zeros, for names and shapes."""
    return {
        "cameras": {
            camera.name: np.zeros((1, camera.height, camera.width, 3), np.uint8)
            for camera in env.cameras
        },
        "states": np.zeros((1, env.state_dim), np.float32),
        "task_descriptions": [""],
        "elapsed": np.zeros(1, np.float32),
    }
