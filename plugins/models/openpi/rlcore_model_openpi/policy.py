"""Make a π0 or π0.5 policy.

The policy combines the network (network/pi0.py) with what all flow policies share (rlcore_flow),
conversions between env and network (processor.py, prefix.py) and files (pretrained.py).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rlcore_flow.building import adapt, make_actor
from rlcore_flow.policy import FlowPolicy

from rlcore.contracts.specs import EnvSpec
from rlcore_model_openpi import pretrained
from rlcore_model_openpi.network.pi0 import PiNetwork
from rlcore_model_openpi.prefix import prefix_inputs
from rlcore_model_openpi.processor import Processor
from rlcore_model_openpi.resolved import masked_images, resolve
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
        network = PiNetwork(resolved.size)
    else:
        processor = pretrained.load_processor(config, resolved, env_spec)
        network = pretrained.unfilled_network(resolved.size)
    actor = make_actor(
        network,
        config.openpi,
        critic_hidden=resolved.critic_hidden,
        cameras=resolved.num_images,
        values=resolved.values,
    )
    if config.model_path is not None:
        pretrained.load_weights(Path(config.model_path), actor)
    adapt(network, config.openpi, config)
    return OpenPIPolicy(
        config,
        config.openpi,
        spec,
        actor,
        processor,
        partial(prefix_inputs, masked_images=masked_images(config, resolved)),
        env_spec.max_episode_steps,
    )


class OpenPIPolicy(FlowPolicy[OpenPIModelConfig, PiNetwork, Processor]):
    """A π0 or π0.5 policy."""

    def save_pretrained(self, path: Path) -> None:
        """Write an openpi checkpoint folder with heads and settings (see pretrained.py)."""
        pretrained.save(path, self.config, self.actor, self.processor)
