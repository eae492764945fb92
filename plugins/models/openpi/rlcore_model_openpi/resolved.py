"""The settings of `actor.model` with every null filled in. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlcore.errors import ConfigError, did_you_mean
from rlcore.specs import EnvSpec
from rlcore_model_openpi.data_configs import DataConfig, data_config
from rlcore_model_openpi.layout import NOISE_HEAD, VALUE_HEAD
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES, NetworkSize

KEY = "actor.model.openpi"
IMAGE_SLOTS = 3
"""Cameras of the published networks: base, left wrist, right wrist."""

_STATE_PROMPT = 200  # tokens of published prompts that hold the state


@dataclass(frozen=True)
class Resolved:
    """The settings with every null filled in.

    Attributes:
        data: the robot.
        size: the network, with its horizon and generation set.
        num_images: cameras that the policy reads.
        discrete_state: whether the prompt holds the state (π0.5).
        action_dim: A, entries of the env's action.
        critic_hidden: hidden widths of the critic.
        values: V, values per decision; 0 without a critic.
    """

    data: DataConfig
    size: NetworkSize
    num_images: int
    discrete_state: bool
    action_dim: int
    critic_hidden: tuple[int, ...]
    values: int

    @property
    def uses_state(self) -> bool:
        """π0 always reads the state; π0.5 reads it in its prompt, or not at all."""
        return self.discrete_state or not self.size.pi05


def resolve(config: OpenPIModelConfig, env_spec: EnvSpec) -> Resolved:
    """Fill in the nulls. ConfigError for unknown names."""
    openpi = config.openpi
    data = data_config(openpi.config_name)
    discrete = openpi.discrete_state_input
    discrete = data.discrete_state_input if discrete is None else discrete
    return Resolved(
        data=data,
        size=_size(config, data, discrete_state=discrete),
        num_images=_given(openpi.num_images_in_input, config.num_images_in_input),
        discrete_state=discrete,
        action_dim=_given(config.action_dim, env_spec.action_dim),
        critic_hidden=tuple(openpi.critic_hidden or data.critic_hidden),
        values=_values(config),
    )


def trained_with(resolved: Resolved) -> dict[str, str | int | bool]:
    """Settings on which the meaning of weights depends, though their shapes don't."""
    return {
        "config_name": resolved.data.name,
        "num_images_in_input": resolved.num_images,
        "discrete_state_input": resolved.discrete_state,
    }


def heads_trained_with(
    config: OpenPIModelConfig,
) -> dict[str, dict[str, str | int | bool | list[float]]]:
    """The same for each head of the policy: its input, and the meaning of its output."""
    openpi = config.openpi
    heads: dict[str, dict[str, str | int | bool | list[float]]] = {}
    if config.add_value_head:
        reads: dict[str, str | int | bool | list[float]] = {
            "value_after_vlm": openpi.value_after_vlm
        }
        if openpi.value_after_vlm:
            reads["value_vlm_mode"] = openpi.value_vlm_mode
        else:
            reads["chunk_critic_input"] = openpi.chunk_critic_input
            if openpi.chunk_critic_input:
                reads["num_action_chunks"] = config.num_action_chunks
        heads[VALUE_HEAD] = reads
    if openpi.noise_method == "flow_noise":
        heads[NOISE_HEAD] = {"noise_logvar_range": list(openpi.noise_logvar_range)}
    return heads


def masked_images(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """How many missing cameras must be given as masked images.

    No existing token sees a masked image, so usually they are left out. But the prompt's padding
    attends to all tokens alike (openpi's additive mask), which a critic notices that averages over
    padding, or reads the last token. Published critics were trained with all slots.
    """
    openpi = config.openpi
    reads_padding = (
        config.add_value_head and openpi.value_after_vlm and openpi.value_vlm_mode != "first_token"
    )
    return IMAGE_SLOTS - resolved.num_images if reads_padding else 0


def _size(config: OpenPIModelConfig, data: DataConfig, *, discrete_state: bool) -> NetworkSize:
    """The named size, with the configured generation, horizon and prompt length."""
    openpi = config.openpi
    published = "pi05" if data.pi05 else "pi0"
    name = openpi.size or published
    if name not in SIZES:
        raise ConfigError(
            f"{KEY}.size must be one of {', '.join(SIZES)}; got {name!r}."
            f"{did_you_mean(name, SIZES)}"
        )
    if name in ("pi0", "pi05") and name != published:
        raise ConfigError(
            f"{KEY}.size is {name!r}, but config_name {data.name!r} is for {published!r}",
            hint=f"set {KEY}.size={published}, or another config_name",
        )
    size = SIZES[name]
    return replace(
        size,
        pi05=data.pi05,
        action_horizon=_given(openpi.action_horizon, data.action_horizon),
        max_token_len=_given(
            openpi.max_token_len, _STATE_PROMPT if discrete_state else size.max_token_len
        ),
    )


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _values(config: OpenPIModelConfig) -> int:
    """V: zero, one per decision, or one per executed action."""
    if not config.add_value_head:
        return 0
    return config.num_action_chunks if config.openpi.value_type == "action_level" else 1
