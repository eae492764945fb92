"""Build the actor of a policy from its settings, and set which of its weights are trained."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.config.schema import ModelConfig
from rlcore_flow.actor import FlowActor, NetworkT
from rlcore_flow.adapt import add_lora, freeze_vlm, set_precision
from rlcore_flow.denoising import FlowConfig
from rlcore_flow.heads import CriticConfig
from rlcore_flow.network import FlowNetwork
from rlcore_flow.settings import FlowSettings


def make_actor(
    network: NetworkT,
    settings: FlowSettings,
    *,
    critic_hidden: Sequence[int],
    cameras: int,
    values: int,
) -> FlowActor[NetworkT]:
    """Return an actor: the network with fresh heads.

    Args:
        network: the network.
        settings: exploration and critic.
        critic_hidden: widths of the critic's hidden layers.
        cameras: number of cameras that the policy reads.
        values: V, values per decision; 0: there is no critic.
    """
    flow = FlowConfig(
        num_steps=settings.num_steps,
        noise_method=settings.noise_method,
        joint_logprob=settings.joint_logprob,
        ignore_last=settings.ignore_last,
    )
    critic = CriticConfig(
        after_vlm=settings.value_after_vlm,
        vlm_mode=settings.value_vlm_mode,
        num_images=cameras,
        detach_input=settings.detach_critic_input,
        elapsed=settings.critic_elapsed,
        hidden=tuple(critic_hidden),
        outputs=values,
    )
    low, high = settings.noise_logvar_range
    return FlowActor(network, flow, critic if values else None, (low, high))


def adapt(network: FlowNetwork, settings: FlowSettings, config: ModelConfig) -> None:
    """Cast the weights of a network, add adapters and freeze what is not trained, in place."""
    set_precision(network, config.precision)
    if config.is_lora:
        add_lora(network, config.lora_rank)
    elif settings.train_expert_only:
        freeze_vlm(network)
