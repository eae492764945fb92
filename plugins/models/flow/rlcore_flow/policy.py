"""Implement rlcore's policy protocols for a flow policy, whatever its network.

A model's policy adds how observations are prepared and how they reach its network. The noise of
each row is drawn from the row's random key. Shapes, in addition to rlcore's:

    K  denoising steps      H  actions predicted      D  padded action entries of the network
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from rlcore_weights.chunks import demonstrated
from rlcore_weights.critic import parameter_groups
from torch import Tensor, nn

from rlcore.config.schema import ModelConfig
from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import PolicySpec
from rlcore_flow.actor import FlowActor, NetworkT, RolloutNoise
from rlcore_flow.denoising import annealed_level
from rlcore_flow.encoder import PrefixEncoder
from rlcore_flow.settings import FlowSettings

PrefixInputs = Callable[[Mapping[str, Tensor], torch.device], Any]
"""Converts stored inputs of B rows to those of a network's prefix, on a device."""


class FlowProcessor(Protocol):
    """Conversions between the env's numbers and the network's; see a model's processor.py."""

    def inputs(self, observation: Observation) -> Inputs:
        """Return the inputs of B rows, among them robot_state float32 `[B, S]`."""

    def to_env_actions(self, actions: np.ndarray, robot_state: np.ndarray) -> np.ndarray:
        """Convert the network's actions `[B, H, D]` to the env's, float32 `[B, H, A]`."""

    def to_model_actions(self, actions: np.ndarray, robot_state: np.ndarray) -> np.ndarray:
        """Convert the env's actions `[B, H, A]` to the network's targets, float32 `[B, H, D]`."""

    def fit(self, demonstrations: Sequence[Demonstration]) -> None:
        """Fit the statistics of states and actions."""


ConfigT = TypeVar("ConfigT", bound=ModelConfig)
ProcessorT = TypeVar("ProcessorT", bound=FlowProcessor)


class FlowPolicy(nn.Module, ABC, Generic[ConfigT, NetworkT, ProcessorT]):
    """A flow policy; see :class:`rlcore.contracts.protocols.NoisePolicy`,
    :class:`rlcore.contracts.protocols.SamplingPolicy` and
    :class:`rlcore.contracts.protocols.EncodingPolicy`.

    Args:
        config: settings of the model.
        settings: those of exploration and critic, a section of `config`.
        spec: facts of the policy under these settings.
        actor: network and heads, already cast to their precision, with untrained parts frozen.
        processor: conversions between the env's numbers and the network's.
        prefix_inputs: conversion of stored inputs to those of the network's prefix.
        max_episode_steps: the env's time limit, in steps.
    """

    def __init__(
        self,
        config: ConfigT,
        settings: FlowSettings,
        spec: PolicySpec,
        actor: FlowActor[NetworkT],
        processor: ProcessorT,
        prefix_inputs: PrefixInputs,
        max_episode_steps: int,
    ) -> None:
        super().__init__()
        self.config = config
        self.spec = spec
        self.actor = actor
        self.processor = processor
        self._settings = settings
        self._prefix_inputs = prefix_inputs
        self._max_episode_steps = max_episode_steps
        self.set_progress(0)

    @abstractmethod
    def save_pretrained(self, path: Path) -> None:
        """Write the policy into a folder that :func:`make` of its plugin loads."""

    def network_inputs(self, inputs: Mapping[str, Tensor]) -> tuple[Any, Tensor, Tensor]:
        """Convert stored inputs to those of the network's prefix, state `[B, D]` and elapsed
        `[B]`, on the device.
        """
        device = self._device
        prefix = self._prefix_inputs(inputs, device)
        return prefix, inputs["state"].to(device), inputs["elapsed"].to(device)

    def frozen_encoder(self) -> PrefixEncoder:
        """Return a copy of the network without its expert, which reads the prefix."""
        return PrefixEncoder(self.actor.network, self._prefix_inputs)

    # -- acting -------------------------------------------------------------------------------

    def prepare(self, observation: Observation) -> Inputs:
        """Return the inputs of B rows, as they are stored; see the model's processor."""
        return self.processor.inputs(observation)

    @torch.no_grad()
    def act(
        self,
        inputs: Inputs,
        keys: RowKeys,
        *,
        deterministic: bool = False,
        noise: np.ndarray | None = None,
    ) -> PolicyOutput:
        """Sample S chunks for each of B rows. The prefix is encoded once for each row.

        Args:
            inputs: results of :meth:`prepare`, for B rows.
            keys: S B random keys, sample by sample.
            deterministic: add no noise in the denoising steps. The initial noise is drawn anyway.
            noise: initial noise float32 `[S B, H, D]`, padded entries included, instead of a drawn
                one.

        Returns:
            Actions, log-probs and values, S B of each. `replay` holds chain float32
            `[S B, K+1, H, D]` and denoise_index int64 `[S B]`.
        """
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        prefix, state, elapsed = self.network_inputs(tensors)
        sample = self.actor.rollout(
            prefix,
            state,
            self._noise(keys, noise, deterministic),
            noise_level=self._noise_level,
            deterministic=deterministic,
            elapsed=elapsed,
        )
        robot_state = inputs["robot_state"]
        robot_state = np.concatenate([robot_state] * (len(keys) // len(robot_state)))
        actions = self.processor.to_env_actions(sample.actions.cpu().numpy(), robot_state)
        return PolicyOutput(
            actions=actions[:, : self.spec.num_action_chunks],
            logprobs=self._executed(sample.logprobs),
            values=sample.values,
            replay={"chain": sample.chain, "denoise_index": sample.denoise_index},
        )

    def evaluate(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Evaluation:
        """Return log-probs, values and entropy of stored decisions under the current weights.

        The entropy is `[B, 1, 1]`, the mean over the executed entries (as in RLinf's
        openpi_action_model.py), so that the entropy bonus does not grow with C and A.
        """
        prefix, state, elapsed = self.network_inputs(inputs)
        score = self.actor.recompute(
            prefix,
            state,
            replay["chain"].to(self._device),
            replay["denoise_index"].to(self._device),
            noise_level=self._noise_level,
            elapsed=elapsed,
        )
        return Evaluation(
            logprobs=self._executed(score.logprobs),
            values=score.values,
            entropy=self._executed(score.entropy).mean(dim=(1, 2), keepdim=True),
        )

    def set_progress(self, update: int) -> None:
        """Set the noise level that applies after `update` updates."""
        settings = self._settings
        self._noise_level = (
            annealed_level(settings.noise_params, update)
            if settings.noise_anneal
            else settings.noise_level
        )

    def set_checkpointing(self, enabled: bool) -> None:
        """Choose whether activations of transformer layers are recomputed in the backward pass."""
        self.actor.network.set_checkpointing(enabled)

    def blocks(self) -> Sequence[nn.Module]:
        """Return the transformer layers of VLM and expert."""
        return self.actor.network.blocks()

    # -- supervised learning ------------------------------------------------------------------

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        """Fit statistics of states and actions. Inputs that were prepared before become invalid."""
        self.processor.fit(demonstrations)

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        """Return the inputs and targets of B frames of a demonstration.

        Returns:
            Inputs, target actions float32 `[B, H, A]` in env units, and mask bool `[B, H]`, false
            past the demonstration's end.
        """
        observation, actions, mask = demonstrated(
            demonstration, frame_index, self.spec.action_horizon, self._max_episode_steps
        )
        return self.prepare(observation), actions, mask

    def sft_loss(
        self, inputs: Mapping[str, Tensor], actions: Tensor, mask: Tensor, keys: RowKeys
    ) -> Tensor:
        """Return the flow-matching loss per sample `[B]`: the mean over valid steps and D entries.

        Times are t ~ 0.999 Beta(1.5, 1) + 0.001, mostly near 1 (pure noise), as in openpi.
        """
        prefix, state, _ = self.network_inputs(inputs)
        targets = self.processor.to_model_actions(
            actions.cpu().numpy(), inputs["robot_state"].cpu().numpy()
        )
        noise = keys.normal("sft_noise", self.spec.noise_shape)
        time = (0.999 * keys.beta("sft_time", 1.5, 1.0) + 0.001).astype(np.float32)
        loss = self.actor.network.flow_matching_loss(
            prefix, state, self._tensor(targets), self._tensor(noise), self._tensor(time)
        )
        weight = mask.to(self._device, torch.float32)
        return (loss.mean(dim=-1) * weight).sum(dim=1) / weight.sum(dim=1)

    # -- parameters ---------------------------------------------------------------------------

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the trainable parameters in two groups: the critic's, and all others."""
        return parameter_groups(self, self.actor.value_head)

    # -- helpers ------------------------------------------------------------------------------

    @property
    def _device(self) -> torch.device:
        return self.actor.network.action_in_proj.weight.device

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _executed(self, values: Tensor) -> Tensor:
        """Select the entries that the env executes: `[B, H, D]` -> `[B, C, A]`."""
        return values[:, : self.spec.num_action_chunks, : self.spec.action_dim]

    def _noise(
        self, keys: RowKeys, initial_noise: np.ndarray | None, deterministic: bool
    ) -> RolloutNoise:
        """Draw all randomness of a decision, in fixed shapes, even for steps whose std is 0.

        Each draw is named and keyed by row, so that a row's noise does not depend on its batch.
        """
        flow = self.actor.flow
        chunk = self.spec.noise_shape
        if initial_noise is None:
            initial_noise = keys.normal("initial", chunk)
        initial = self._tensor(initial_noise)
        if deterministic:
            step = initial.new_zeros(len(keys), flow.num_steps, *chunk)
            index = torch.zeros(len(keys), dtype=torch.int64, device=self._device)
        else:
            step = self._tensor(keys.normal("step", (flow.num_steps, *chunk)))
            index = self._tensor(keys.integers("denoise_index", flow.index_choices))
        return RolloutNoise(initial=initial, step=step, denoise_index=index)
