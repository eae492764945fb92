"""Resolve the settings of `actor.model`: fill in every null. No torch.

A null takes the value that the checkpoint's files state, else the default of config_name or size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rlcore_flow.normalize import QUANTILE, Z_SCORE, Formula
from rlcore_flow.settings import reads_vlm, values_of

from rlcore.contracts.errors import CheckpointError, ConfigError, did_you_mean
from rlcore.contracts.specs import EnvSpec
from rlcore_model_openpi.data_configs import DataConfig, data_config, same_robot
from rlcore_model_openpi.published import Published, read_published
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES, NetworkSize

KEY = "actor.model.openpi"
IMAGE_SLOTS = 3
"""Cameras of the published networks: base, left wrist, right wrist."""

_STATE_PROMPT = 200  # prompt length L of the published models whose prompt holds the state

T = TypeVar("T")
Setting = str | int | bool | list[float]


@dataclass(frozen=True)
class Resolved:
    """The settings of `actor.model` without nulls.

    Attributes:
        data: the data config: conversions between the robot's numbers and the model's.
        size: sizes of the network, including its action horizon and generation (π0 or π0.5).
        num_images: number of cameras that the policy reads.
        discrete_state: whether the prompt holds the state (π0.5 only).
        action_dim: A, entries of the env's action.
        critic_hidden: widths of the critic's hidden layers.
        values: V, values per decision; 0 without a critic.
        published: the settings that the checkpoint's files state; empty without a checkpoint.
        state_formula, action_formula: formulas that normalise states and actions.
    """

    data: DataConfig
    size: NetworkSize
    num_images: int
    discrete_state: bool
    action_dim: int
    critic_hidden: tuple[int, ...]
    values: int
    published: Published
    state_formula: Formula
    action_formula: Formula

    @property
    def uses_state(self) -> bool:
        """Return whether the policy reads the state: π0 always, π0.5 only in its prompt."""
        return self.discrete_state or not self.size.pi05


def resolve(config: OpenPIModelConfig, env_spec: EnvSpec) -> Resolved:
    """Fill in the nulls of `config`.

    Raises:
        ConfigError: config_name or size is unknown.
        CheckpointError: the checkpoint's `config.json` is damaged, or describes a policy that this
            model or config_name doesn't match.
    """
    openpi = config.openpi
    published = Published()
    if config.model_path is not None:
        published = read_published(Path(config.model_path))
    data = _robot(config, data_config(openpi.config_name), published)
    trained = published.trained
    discrete = _first_set(
        openpi.discrete_state_input,
        trained.get("discrete_state_input"),
        data.discrete_state_input,
    )
    formula = QUANTILE if data.pi05 else Z_SCORE
    return Resolved(
        data=data,
        size=_size(config, data, published, discrete_state=discrete),
        num_images=_first_set(
            openpi.num_images_in_input,
            config.images(
                len(env_spec.cameras),
                trained=trained.get("num_images_in_input"),
                most=IMAGE_SLOTS,
            ),
        ),
        discrete_state=discrete,
        action_dim=_first_set(config.action_dim, env_spec.action_dim),
        critic_hidden=tuple(openpi.critic_hidden or data.critic_hidden),
        values=values_of(
            openpi, config.num_action_chunks, add_value_head=bool(config.add_value_head)
        ),
        published=published,
        state_formula=published.formulas.get("state", formula),
        action_formula=published.formulas.get("actions", formula),
    )


def _robot(config: OpenPIModelConfig, data: DataConfig, published: Published) -> DataConfig:
    """Return the data config of config_name with the checkpoint's mask of relative actions.

    Raises:
        CheckpointError: the checkpoint is of the other generation, or of a LeRobot policy that
            differs in whether it converts ALOHA's joints.
    """
    pi05 = published.trained.get("pi05", data.pi05)
    if pi05 != data.pi05:
        ours, theirs = ("π0.5", "π0") if data.pi05 else ("π0", "π0.5")
        raise CheckpointError(
            f"{config.model_path} is {theirs}, but config_name {data.name!r} is for {ours}",
            hint=f"set {KEY}.config_name={same_robot(data, pi05)}",
        )
    lerobot = published.lerobot
    if lerobot is not None and lerobot.adapted != data.adapts:
        ours = "converts" if data.adapts else "doesn't convert"
        theirs = "doesn't" if data.adapts else "does"
        raise CheckpointError(
            f"config_name {data.name!r} {ours} ALOHA's joints to those of π0's robot; the LeRobot "
            f"policy in {config.model_path} {theirs}",
            hint=f"choose another {KEY}.config_name or another actor.model.model_path",
        )
    return data if published.delta_mask is None else replace(data, delta_mask=published.delta_mask)


def trained_with(resolved: Resolved) -> dict[str, Setting]:
    """Return the settings that change what the weights mean but not their shapes."""
    return {
        "config_name": resolved.data.name,
        "num_images_in_input": resolved.num_images,
        "discrete_state_input": resolved.discrete_state,
    }


def masked_images(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """Return the number of missing cameras that the network must get as masked images.

    Tokens that exist don't attend to masked images, so these are usually left out. Padding tokens
    of the prompt, however, attend to all tokens equally (because of openpi's additive mask). This
    changes the input of a critic that averages over padding or reads the last token; published
    critics of this kind were trained with all image slots.
    """
    openpi = config.openpi
    reads_padding = reads_vlm(openpi, resolved.values) and openpi.value_vlm_mode != "first_token"
    return IMAGE_SLOTS - resolved.num_images if reads_padding else 0


def _size(
    config: OpenPIModelConfig, data: DataConfig, published: Published, *, discrete_state: bool
) -> NetworkSize:
    """Return the named size with the resolved generation, horizon, prompt length and action_dim.

    Raises:
        ConfigError: the name is unknown, or of the other generation.
    """
    openpi = config.openpi
    generation = "pi05" if data.pi05 else "pi0"
    name = openpi.size or generation
    if name not in SIZES:
        raise ConfigError(
            f"{KEY}.size must be one of {', '.join(SIZES)}; got {name!r}."
            f"{did_you_mean(name, SIZES)}"
        )
    if name in ("pi0", "pi05") and name != generation:
        raise ConfigError(
            f"{KEY}.size is {name!r}, but config_name {data.name!r} is for {generation!r}",
            hint=f"set {KEY}.size={generation}, or another config_name",
        )
    size = SIZES[name]
    trained = published.trained
    length = _STATE_PROMPT if discrete_state else size.max_token_len
    return replace(
        size,
        pi05=data.pi05,
        action_dim=trained.get("action_dim", size.action_dim),
        action_horizon=_first_set(
            openpi.action_horizon, trained.get("action_horizon"), data.action_horizon
        ),
        max_token_len=_first_set(openpi.max_token_len, trained.get("max_token_len"), length),
    )


def _first_set(*values: T | None) -> T:
    """Return the first value that is not None; callers pass a default last."""
    return next(value for value in values if value is not None)
