"""Build OpenVLA as an rlcore policy from network.py and the shared parts in rlcore_prismatic."""

from __future__ import annotations

from rlcore_prismatic.policy import TokenPolicy, make_policy

from rlcore.contracts.specs import EnvSpec
from rlcore_model_openvla.network import AutoregressiveActor
from rlcore_model_openvla.settings import OpenVLAConfig
from rlcore_model_openvla.spec import policy_spec, resolve


def make(config: OpenVLAConfig, *, env_spec: EnvSpec) -> TokenPolicy:
    """Build the policy; the factory that the plugin names.

    Raises:
        ConfigError: settings that don't fit each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or has other shapes.
    """
    spec = policy_spec(config, env_spec)
    resolved = resolve(config, env_spec)
    return make_policy(config, spec, resolved, env_spec, AutoregressiveActor)
