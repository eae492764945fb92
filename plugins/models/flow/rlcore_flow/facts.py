"""Count parameters and cached numbers of a flow policy from its settings. No tensor library."""

from __future__ import annotations

from collections.abc import Mapping

from rlcore_weights.headers import count

from rlcore.config.schema import ModelConfig
from rlcore_flow.settings import FlowSettings, reads_vlm
from rlcore_flow.sizes import FlowSize

BLOCKS = r"(.*\.layers\.\d+)\."
"""Regular expression of the prefix of a transformer layer's parameters."""

_Shapes = Mapping[str, tuple[int, ...]]


def parameter_counts(
    config: ModelConfig,
    settings: FlowSettings,
    *,
    network: _Shapes,
    expert: _Shapes,
    heads: Mapping[str, _Shapes],
    adapters: int,
) -> tuple[int, int]:
    """Return the number of all parameters, and of those that RL trains.

    Args:
        config: settings of the model.
        settings: the section of `config` that flow policies share.
        network: shapes of all weights of the network.
        expert: of those that are trained if the VLM is frozen.
        heads: of the heads.
        adapters: number of parameters of the adapters, if there are any.
    """
    added = sum(map(count, heads.values()))
    added += adapters if config.is_lora else 0
    trained = expert if settings.train_expert_only or config.is_lora else network
    return count(network) + added, count(trained) + added


def unused_parameters(
    settings: FlowSettings, values: int, language_model: str, depth: int
) -> tuple[str, ...]:
    """Return name prefixes of parameters of the policy that no output depends on.

    The action expert reads keys and values of the VLM's last layer. The rest of that layer only
    matters to a critic on the VLM's output.

    Args:
        settings: exploration and critic.
        values: V, values per decision.
        language_model: name of the VLM's language model in the network.
        depth: its layers.
    """
    if reads_vlm(settings, values):
        return ()
    model = f"actor.network.{language_model}."
    after = ("self_attn.q_proj", "self_attn.o_proj", "mlp", "post_")
    return (*(f"{model}layers.{depth - 1}.{name}" for name in after), f"{model}norm")


def cache_size(settings: FlowSettings, values: int, size: FlowSize, tokens: int) -> int:
    """Return how many numbers per row the VLM computes once for all denoising steps.

    They are keys and values, and the VLM's output if the critic reads it.

    Args:
        settings: exploration and critic.
        values: V, values per decision.
        size: of the network.
        tokens: those of the prefix, including padding.
    """
    output = size.vlm_width if reads_vlm(settings, values) else 0
    return tokens * (2 * size.depth * size.kv_heads * size.head_dim + output)
