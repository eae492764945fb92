"""Make a SmolVLA policy, and convert stored inputs to those of its network.

The policy combines the network (network.py) with what all flow policies share (rlcore_flow),
conversions between env and network (processor.py) and a folder of files (folder.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from rlcore_flow.actor import FlowActor
from rlcore_flow.heads import CriticConfig
from rlcore_flow.policy import FlowPolicy, adapt, flow_config
from torch import Tensor

from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_model_smolvla import folder
from rlcore_model_smolvla.network import PrefixInputs, SmolVLANetwork
from rlcore_model_smolvla.processor import Processor, image_name
from rlcore_model_smolvla.resolved import Resolved, load_normalizer, resolve
from rlcore_model_smolvla.settings import SmolVLAModelConfig
from rlcore_model_smolvla.spec import policy_spec, tokenizer_of


def make(config: SmolVLAModelConfig, *, env_spec: EnvSpec) -> SmolVLAPolicy:
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
    tokenizer = tokenizer_of(config, resolved, env_spec)
    processor = Processor(resolved, tokenizer, load_normalizer(resolved, env_spec))
    if config.model_path is None:
        actor = _actor(config, resolved, SmolVLANetwork(resolved.size))
    else:
        # initialising weights, just to overwrite them, would take seconds
        with torch.device("meta"):
            network = SmolVLANetwork(resolved.size)
        actor = _actor(config, resolved, network)
        folder.load_weights(Path(config.model_path), actor)
    adapt(
        actor.network,
        config.precision,
        lora_rank=config.lora_rank if config.is_lora else None,
        train_expert_only=config.smolvla.train_expert_only,
    )
    return SmolVLAPolicy(config, spec, actor, processor, env_spec.max_episode_steps)


class SmolVLAPolicy(FlowPolicy[SmolVLANetwork]):
    """A SmolVLA policy.

    Args:
        config: settings; :meth:`save_pretrained` writes some of them.
        spec: facts of the policy under these settings.
        actor: network and heads, already cast to their precision, with untrained parts frozen.
        processor: conversions between the env's numbers and the network's.
        max_episode_steps: the env's time limit, in steps.
    """

    def __init__(
        self,
        config: SmolVLAModelConfig,
        spec: PolicySpec,
        actor: FlowActor[SmolVLANetwork],
        processor: Processor,
        max_episode_steps: int,
    ) -> None:
        super().__init__(spec, config.smolvla, actor, processor, max_episode_steps)
        self.config = config
        self.processor = processor

    def save_pretrained(self, path: Path) -> None:
        """Write a folder of LeRobot with heads and sizes (see folder.py)."""
        folder.save(path, self.config, self.actor, self.processor)

    def network_inputs(self, inputs: Mapping[str, Tensor]) -> tuple[PrefixInputs, Tensor, Tensor]:
        """Convert stored inputs to prefix, state and elapsed `[B]` on the device."""
        device = self._device
        prefix = PrefixInputs(
            images=[inputs[image_name(n)].to(device) for n in range(self.spec.num_images)],
            tokens=inputs["tokens"].to(device, torch.int64),
            token_mask=inputs["token_mask"].to(device),
        )
        return prefix, inputs["state"].to(device), inputs["elapsed"].to(device)


def _actor(
    config: SmolVLAModelConfig, resolved: Resolved, network: SmolVLANetwork
) -> FlowActor[SmolVLANetwork]:
    """Return an actor: the network with fresh heads."""
    smolvla = config.smolvla
    critic = CriticConfig(
        detach_input=smolvla.detach_critic_input,
        elapsed=smolvla.critic_elapsed,
        hidden=tuple(smolvla.critic_hidden),
        outputs=resolved.values,
    )
    low, high = smolvla.noise_logvar_range
    return FlowActor(
        network, flow_config(smolvla), critic if config.add_value_head else None, (low, high)
    )
