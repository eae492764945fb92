"""Make a SmolVLA policy, and convert stored inputs to those of its network.

The policy combines the network (network.py) with what all flow policies share (rlcore_flow),
conversions between env and network (processor.py) and a folder of files (folder.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
from rlcore_flow.building import adapt, make_actor
from rlcore_flow.policy import FlowPolicy
from torch import Tensor

from rlcore.contracts.specs import EnvSpec
from rlcore_model_smolvla import folder
from rlcore_model_smolvla.network import PrefixInputs, SmolVLANetwork
from rlcore_model_smolvla.processor import Processor, image_name
from rlcore_model_smolvla.resolved import load_normalizer, resolve
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
    # on the meta device: initialising weights, just to overwrite them, would take seconds
    with nullcontext() if config.model_path is None else torch.device("meta"):
        network = SmolVLANetwork(resolved.size)
    cameras = len(resolved.cameras)
    actor = make_actor(
        network,
        config.smolvla,
        critic_hidden=config.smolvla.critic_hidden,
        cameras=cameras,
        values=resolved.values,
    )
    if config.model_path is not None:
        folder.load_weights(Path(config.model_path), actor)
    adapt(network, config.smolvla, config)
    return SmolVLAPolicy(
        config,
        config.smolvla,
        spec,
        actor,
        processor,
        partial(prefix_inputs, cameras=cameras),
        env_spec.max_episode_steps,
    )


class SmolVLAPolicy(FlowPolicy[SmolVLAModelConfig, SmolVLANetwork, Processor]):
    """A SmolVLA policy."""

    def save_pretrained(self, path: Path) -> None:
        """Write a folder of LeRobot with heads and sizes (see folder.py)."""
        folder.save(path, self.config, self.actor, self.processor)


def prefix_inputs(
    inputs: Mapping[str, Tensor], device: torch.device, *, cameras: int
) -> PrefixInputs:
    """Convert stored inputs of B rows to the VLM's, on the device.

    Args:
        inputs: `image_0`, `image_1`, ... uint8 `[B, h, w, 3]`, `tokens` integers `[B, L]` and
            `token_mask` bool `[B, L]`.
        device: of the network.
        cameras: number of images.
    """
    return PrefixInputs(
        images=[inputs[image_name(number)].to(device) for number in range(cameras)],
        tokens=inputs["tokens"].to(device, torch.int64),
        token_mask=inputs["token_mask"].to(device),
    )
