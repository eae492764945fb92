"""Make a π0 or π0.5 policy, and convert stored inputs to those of its network.

The policy combines the network (network/pi0.py) with what all flow policies share (rlcore_flow),
conversions between env and network (processor.py) and files (pretrained.py). Shapes, in addition
to rlcore's:

    I  cameras              L  prompt tokens
    H  actions predicted    D  padded action and state entries of the network
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlcore_flow.actor import FlowActor
from rlcore_flow.heads import CriticConfig
from rlcore_flow.policy import FlowPolicy, adapt, flow_config
from torch import Tensor

from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_model_openpi import pretrained
from rlcore_model_openpi.encoder import PrefixEncoder, prefix_inputs
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
    adapt(
        actor.network,
        config.precision,
        lora_rank=config.lora_rank if config.is_lora else None,
        train_expert_only=config.openpi.train_expert_only,
    )
    return OpenPIPolicy(config, spec, actor, processor, env_spec.max_episode_steps)


class OpenPIPolicy(FlowPolicy[PiNetwork]):
    """A π0 or π0.5 policy; see also :class:`rlcore.contracts.protocols.EncodingPolicy`.

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
        actor: FlowActor[PiNetwork],
        processor: Processor,
        max_episode_steps: int,
    ) -> None:
        super().__init__(spec, config.openpi, actor, processor, max_episode_steps)
        self.config = config
        self.processor = processor
        self._masked_images = masked_images(config, processor.resolved)

    def frozen_encoder(self) -> PrefixEncoder:
        """Return a copy of the VLM, which reads cameras and prompt."""
        return PrefixEncoder(self.actor.network, self._masked_images)

    def save_pretrained(self, path: Path) -> None:
        """Write an openpi checkpoint folder with heads and settings (see pretrained.py)."""
        pretrained.save(path, self.config, self.actor, self.processor)

    def network_inputs(self, inputs: Mapping[str, Tensor]) -> tuple[PrefixInputs, Tensor, Tensor]:
        """Convert stored inputs to prefix, state `[B, D]` and elapsed `[B]` on the device."""
        device = self._device
        prefix = prefix_inputs(inputs, self._masked_images, device)
        return prefix, inputs["state"].to(device), inputs["elapsed"].to(device)


def _actor(
    config: OpenPIModelConfig, resolved: Resolved, network: PiNetwork
) -> FlowActor[PiNetwork]:
    """Return an actor: the network with fresh heads."""
    openpi = config.openpi
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
    return FlowActor(
        network, flow_config(openpi), critic if config.add_value_head else None, (low, high)
    )
