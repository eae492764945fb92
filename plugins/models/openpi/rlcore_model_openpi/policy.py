"""Implement rlcore's policy protocols for π0 and π0.5.

The policy combines the network and its actor (network/), step distributions (flow.py), heads
(heads.py), conversions between env and network (processor.py) and files (pretrained.py), and draws
the noise of each row from the row's random key. Shapes, in addition to rlcore's:

    I  cameras              L  prompt tokens       K  denoising steps
    H  actions predicted    D  padded action and state entries of the network
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from rlcore_weights.chunks import demonstrated
from rlcore_weights.critic import parameter_groups
from torch import Tensor, nn

from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_model_openpi import pretrained
from rlcore_model_openpi.flow import FlowConfig, annealed_level
from rlcore_model_openpi.heads import CriticConfig
from rlcore_model_openpi.network.actor import FlowActor, RolloutNoise
from rlcore_model_openpi.network.adapt import add_lora, freeze_vlm, set_precision
from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixInputs
from rlcore_model_openpi.processor import Processor
from rlcore_model_openpi.resolved import Resolved, masked_images, resolve
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.spec import policy_spec


def make(config: OpenPIModelConfig, *, env_spec: EnvSpec) -> OpenPIPolicy:
    """Build the policy; the factory that the plugin names.

    Without `model_path` the weights are random (from torch's global generator), the statistics
    scale actions to the env's range until they are fitted, and the tokenizer is trained on the
    env's instructions.

    Raises:
        ConfigError: settings that contradict each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or has other shapes.
    """
    spec = policy_spec(config, env_spec)
    resolved = resolve(config, env_spec)
    if config.model_path is None:
        processor = pretrained.fresh_processor(resolved, env_spec)
        actor = _actor(config, resolved, PiNetwork(resolved.size))
    else:
        processor = pretrained.load_processor(config, resolved, env_spec)
        actor = _actor(config, resolved, pretrained.unfilled_network(resolved.size))
        pretrained.load_weights(Path(config.model_path), actor)
    set_precision(actor.network, config.precision)
    if config.is_lora:
        add_lora(actor.network, config.lora_rank)
    elif config.openpi.train_expert_only:
        freeze_vlm(actor.network)
    return OpenPIPolicy(config, spec, actor, processor, env_spec.max_episode_steps)


class OpenPIPolicy(nn.Module):
    """A π0 or π0.5 policy; see :class:`rlcore.contracts.protocols.NoisePolicy` and
    :class:`rlcore.contracts.protocols.SamplingPolicy`.

    Args:
        config: settings; :meth:`save_pretrained` writes them too.
        spec: facts of the policy under these settings.
        actor: network and heads, already cast to their precision, with untrained parts frozen.
        processor: conversions between the env's numbers and the network's.
        max_episode_steps: the env's time limit, in steps.
    """

    def __init__(
        self,
        config: OpenPIModelConfig,
        spec: PolicySpec,
        actor: FlowActor,
        processor: Processor,
        max_episode_steps: int,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.config = config
        self.actor = actor
        self.processor = processor
        self._max_episode_steps = max_episode_steps
        self._masked_images = masked_images(config, processor.resolved)
        self.set_progress(0)

    # -- acting -------------------------------------------------------------------------------

    def prepare(self, observation: Observation) -> Inputs:
        """Return the inputs of B rows, as they are stored; see :meth:`Processor.inputs`."""
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
        prefix, state, elapsed = self._network_inputs(tensors)
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
        prefix, state, elapsed = self._network_inputs(inputs)
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
        openpi = self.config.openpi
        self._noise_level = (
            annealed_level(openpi.noise_params, update)
            if openpi.noise_anneal
            else openpi.noise_level
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
        size = self.processor.resolved.size
        prefix, state, _ = self._network_inputs(inputs)
        targets = self.processor.to_model_actions(
            actions.cpu().numpy(), inputs["robot_state"].cpu().numpy()
        )
        noise = keys.normal("sft_noise", (size.action_horizon, size.action_dim))
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

    def save_pretrained(self, path: Path) -> None:
        """Write an openpi checkpoint folder with heads and settings (see pretrained.py)."""
        pretrained.save(path, self.config, self.actor, self.processor)

    # -- helpers ------------------------------------------------------------------------------

    @property
    def _device(self) -> torch.device:
        return self.actor.network.action_in_proj.weight.device

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _executed(self, values: Tensor) -> Tensor:
        """Select the entries that the env executes: `[B, H, D]` -> `[B, C, A]`."""
        return values[:, : self.spec.num_action_chunks, : self.spec.action_dim]

    def _network_inputs(self, inputs: Mapping[str, Tensor]) -> tuple[PrefixInputs, Tensor, Tensor]:
        """Convert stored inputs to prefix, state `[B, D]` and elapsed `[B]` on the device."""
        device = self._device
        # uint8 [B, I, h, w, 3] -> float [B, I, 3, h, w] in [-1, 1]
        pixels = inputs["images"].to(device).permute(0, 1, 4, 2, 3)
        images = pixels.to(torch.float32) / 255.0 * 2.0 - 1.0
        image_masks = torch.ones(images.shape[:2], dtype=torch.bool, device=device)
        if self._masked_images:
            rows = len(images)
            missing = self._masked_images
            black = images.new_full((rows, missing, *images.shape[2:]), -1.0)
            images = torch.cat([images, black], dim=1)
            image_masks = torch.cat([image_masks, image_masks.new_zeros(rows, missing)], dim=1)
        prefix = PrefixInputs(
            images=images,
            image_masks=image_masks,
            tokens=inputs["tokens"].to(device, torch.int64),
            token_mask=inputs["token_mask"].to(device),
        )
        return prefix, inputs["state"].to(device), inputs["elapsed"].to(device)

    def _noise(
        self, keys: RowKeys, initial_noise: np.ndarray | None, deterministic: bool
    ) -> RolloutNoise:
        """Draw all randomness of a decision, in fixed shapes, even for steps whose std is 0.

        Each draw is named and keyed by row, so that a row's noise does not depend on its batch.
        """
        size = self.processor.resolved.size
        flow = self.actor.flow
        chunk = (size.action_horizon, size.action_dim)
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


def _actor(config: OpenPIModelConfig, resolved: Resolved, network: PiNetwork) -> FlowActor:
    """Return an actor: the network with fresh heads."""
    openpi = config.openpi
    flow = FlowConfig(
        num_steps=openpi.num_steps,
        noise_method=openpi.noise_method,
        joint_logprob=openpi.joint_logprob,
        ignore_last=openpi.ignore_last,
    )
    critic = CriticConfig(
        after_vlm=openpi.value_after_vlm,
        vlm_mode=openpi.value_vlm_mode,
        num_images=resolved.num_images,
        detach_input=openpi.detach_critic_input,
        elapsed=openpi.critic_elapsed,
        hidden=resolved.critic_hidden,
        outputs=resolved.values,
    )
    low, high = openpi.noise_logvar_range
    return FlowActor(network, flow, critic if config.add_value_head else None, (low, high))
