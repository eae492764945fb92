"""Define data configs by name: conversions between a robot's numbers and the model's. Numpy only.

The conversions are pure functions. They are applied in openpi's order:

    in   states -> decode -> Normalize -> (tokenize, pad)
         actions -> encode -> delta -> Normalize -> (pad)
    out  Unnormalize -> slice to the env's entries -> absolute -> decode

Images, statistics and prompts are handled elsewhere. Based on openpi (Apache-2.0), with the names
that RL configs for it use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.specs import StateChannel

Transform = Callable[[np.ndarray], np.ndarray]


def _identity(values: np.ndarray) -> np.ndarray:
    return values


# -- ALOHA: two arms of 6 joints and a gripper, [left 6, left gripper, right 6, right gripper] ----

ALOHA_ENTRIES = 14
_FLIPPED_JOINTS = [1, 2, 8, 9]
_GRIPPERS = [6, 13]
# Finger positions (m), closed and open, between which an ALOHA gripper reading is 0..1.
_FINGER_RANGE = (0.01844, 0.05800)
# The finger's linkage: length of the arm and radius of the horn (m).
_ARM = 0.036
_HORN = 0.022
# Encoder angles (rad) between which the gripper π0 was trained on is 0..1: counts 2405..3110 of
# 4096 per turn, with zero at 2048.
_PI_GRIPPER_RANGE = (0.5476, 1.6296)
# Joint angles (rad) between which a gripper command of ALOHA is 0..1.
_GRIPPER_JOINT_RANGE = (-0.6213, 1.4910)


def _flip(values: np.ndarray) -> np.ndarray:
    """Return a copy with the joints negated that turn the other way on π0's robot."""
    flipped = np.array(values)
    flipped[..., _FLIPPED_JOINTS] *= -1
    return flipped


def aloha_state_to_pi(states: np.ndarray) -> np.ndarray:
    """Convert an ALOHA state `[..., 14]` to π0's: flip joints; gripper opening to scaled angle."""
    result = _flip(states)
    low, high = _FINGER_RANGE
    finger = result[..., _GRIPPERS] * (high - low) + low
    # Law of cosines in the linkage: horn^2 + x^2 - arm^2 = 2 horn x sin(angle).
    sine = (_HORN**2 + finger**2 - _ARM**2) / (2 * _HORN * finger)
    low, high = _PI_GRIPPER_RANGE
    result[..., _GRIPPERS] = (np.arcsin(np.clip(sine, -1.0, 1.0)) - low) / (high - low)
    return result


def aloha_actions_to_pi(actions: np.ndarray) -> np.ndarray:
    """Convert an ALOHA action `[..., 14]` to π0's; inverse of :func:`aloha_actions_from_pi`."""
    result = _flip(actions)
    low, high = _GRIPPER_JOINT_RANGE
    result[..., _GRIPPERS] = result[..., _GRIPPERS] * (high - low) + low - _PI_GRIPPER_RANGE[0]
    return result


def aloha_actions_from_pi(actions: np.ndarray) -> np.ndarray:
    """Convert π0's action `[..., 14]` to ALOHA's.

    Of π0's gripper range only the offset is undone, not the scale: openpi does the same, and its
    checkpoints were trained that way.
    """
    result = _flip(actions)
    low, high = _GRIPPER_JOINT_RANGE
    result[..., _GRIPPERS] = (result[..., _GRIPPERS] + _PI_GRIPPER_RANGE[0] - low) / (high - low)
    return result


# -- data configs -----------------------------------------------------------------------------


@dataclass(frozen=True)
class DataConfig:
    """The conversions and defaults of one robot for one family of checkpoints.

    Attributes:
        name: the user's `config_name`.
        pi05: π0.5 (quantile normalisation, adaRMS) or π0 (z-score).
        action_horizon: H of the published checkpoints.
        asset_id: folder of `norm_stats.json` in published checkpoints.
        discrete_state_input: π0.5 only: write the state into the prompt.
        delta_mask: entries of the action that are relative to the state of the decision.
        critic_hidden: hidden widths of published critics.
        entries: length that state and action must have; None: the env's.
        to_model_state: env states float32 `[B, S]` -> the model's, before Normalize.
        actions_in, actions_out: the robot's transforms of actions.
    """

    name: str
    pi05: bool
    action_horizon: int
    asset_id: str
    discrete_state_input: bool = False
    delta_mask: tuple[bool, ...] = ()
    critic_hidden: tuple[int, ...] = (512, 256, 128)
    entries: int | None = None
    to_model_state: Transform = _identity
    actions_in: Transform = _identity
    actions_out: Transform = _identity

    @property
    def adapts(self) -> bool:
        """Return whether the env's joints differ from those of the model."""
        return self.to_model_state is not _identity

    def to_model_actions(self, actions: np.ndarray, model_states: np.ndarray) -> np.ndarray:
        """Convert env actions `[B, H, A]` to the model's, before Normalize.

        Args:
            model_states: `[B, S]`, results of `to_model_state`.
        """
        return self.actions_in(actions) - self._offset(actions, model_states)

    def to_env_actions(
        self, actions: np.ndarray, model_states: np.ndarray, action_dim: int
    ) -> np.ndarray:
        """Convert unnormalised model actions `[B, H, >=A]` to the env's `[B, H, A]`."""
        actions = actions[..., :action_dim]
        return self.actions_out(actions + self._offset(actions, model_states))

    def action_range(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert the bounds `[A]` of the env's actions to those of the model's, before Normalize.

        A relative entry may move by half the width of its range, in either direction.
        """
        ends = np.stack([self.actions_in(low), self.actions_in(high)])
        low = ends.min(axis=0)
        high = ends.max(axis=0)
        half = (high - low) / 2
        relative = np.zeros(len(half), dtype=bool)
        relative[: len(self.delta_mask)] = self.delta_mask
        return np.where(relative, -half, low), np.where(relative, half, high)

    def _offset(self, actions: np.ndarray, model_states: np.ndarray) -> np.ndarray:
        """Return `[B, 1, A]`: the state's entries where `delta_mask` is true, 0 elsewhere."""
        offset = np.zeros((len(actions), 1, actions.shape[-1]), dtype=actions.dtype)
        width = len(self.delta_mask)
        offset[:, 0, :width] = np.where(self.delta_mask, model_states[:, :width], 0)
        return offset


_WIDE = (1024, 512, 256)
_ARM_AND_GRIPPER = (True,) * 6 + (False,)
_LIBERO_ASSETS = "physical-intelligence/libero"
_METAWORLD_ASSETS = "lerobot/metaworld_mt50"
_MANISKILL_ASSETS = "physical-intelligence/maniskill"
_ROBOTWIN_ASSETS = "physical-intelligence/robotwin"

# State channels in the data sets of published checkpoints, by asset id.
STATES: dict[str, tuple[StateChannel, ...]] = {
    _LIBERO_ASSETS: (
        StateChannel("ee_position", 3),
        StateChannel("ee_axis_angle", 3),
        StateChannel("gripper_finger_positions", 2),
    ),
    _METAWORLD_ASSETS: (StateChannel("ee_position", 3), StateChannel("gripper_opening", 1)),
    # six joints of the arm and two fingers: ManiSkill's qpos of the widowx
    _MANISKILL_ASSETS: (StateChannel("joint_position", 8),),
    _ROBOTWIN_ASSETS: (StateChannel("joint_position", 6), StateChannel("gripper_opening", 1)) * 2,
}

DATA_CONFIGS: dict[str, DataConfig] = {
    config.name: config
    for config in (
        DataConfig("pi0_metaworld", False, 5, _METAWORLD_ASSETS),
        DataConfig("pi05_metaworld", True, 5, _METAWORLD_ASSETS),
        # LIBERO's actions are already deltas; the published π0 was trained on deltas of these.
        DataConfig("pi0_libero", False, 50, _LIBERO_ASSETS, delta_mask=_ARM_AND_GRIPPER),
        DataConfig("pi05_libero", True, 10, _LIBERO_ASSETS, critic_hidden=_WIDE),
        DataConfig("pi0_maniskill", False, 50, _MANISKILL_ASSETS),
        DataConfig("pi05_maniskill", True, 10, _MANISKILL_ASSETS, critic_hidden=_WIDE),
        DataConfig(
            "pi0_aloha_robotwin",
            False,
            50,
            _ROBOTWIN_ASSETS,
            delta_mask=_ARM_AND_GRIPPER * 2,
            entries=ALOHA_ENTRIES,
        ),
        DataConfig(
            "pi05_aloha_robotwin",
            True,
            50,
            _ROBOTWIN_ASSETS,
            discrete_state_input=True,
            delta_mask=_ARM_AND_GRIPPER * 2,
            entries=ALOHA_ENTRIES,
            to_model_state=aloha_state_to_pi,
            actions_in=aloha_actions_to_pi,
            actions_out=aloha_actions_from_pi,
        ),
    )
}


def data_config(name: str) -> DataConfig:
    """Return the data config called `name`.

    Raises:
        ConfigError: the name is unknown; the message lists the choices.
    """
    if name not in DATA_CONFIGS:
        raise ConfigError(
            f"actor.model.openpi.config_name has no {name!r}{choices_message(name, DATA_CONFIGS)}"
        )
    return DATA_CONFIGS[name]


def same_robot(data: DataConfig, pi05: bool) -> str:
    """Return the name of the robot's data config for a generation, for use in hints.

    If the robot has no such data config, the result names all data configs of the generation,
    joined by "or".
    """
    generation = "pi05_" if pi05 else "pi0_"
    own = f"{generation}{data.name.partition('_')[2]}"
    names = [name for name in DATA_CONFIGS if name.startswith(generation)]
    return own if own in names else " or ".join(names)
