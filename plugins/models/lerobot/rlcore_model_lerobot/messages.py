"""Define the commands to the process of a policy, and its answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rlcore_simulation.messages import Failure
from rlcore_simulation.translate import Kinds

from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_model_lerobot.settings import LeRobotModelConfig


@dataclass(frozen=True)
class Load:
    """First message to a process: load the policy, or build it. It has no answer.

    Attributes:
        config: settings of the model.
        env: the env that it acts in.
        seed: seed of weights that are in no checkpoint.
    """

    config: LeRobotModelConfig
    env: EnvSpec
    seed: int


@dataclass(frozen=True)
class Report:
    """Answer with :class:`Done` once the policy can act."""


@dataclass(frozen=True)
class Save:
    """Write the policy as LeRobot does. The answer is :class:`Done`.

    Attributes:
        folder: path of the folder to write.
    """

    folder: str


@dataclass(frozen=True)
class Done:
    """Answer to a command that gives nothing back."""


@dataclass(frozen=True)
class Act:
    """Decide for B rows. The answer is :class:`Acted`.

    Attributes:
        inputs: inputs as :meth:`rlcore.contracts.protocols.Policy.prepare` makes them.
        keys: keys of the rows, from which the process draws the policy's noise.
        device: torch device to compute on.
    """

    inputs: dict[str, np.ndarray]
    keys: RowKeys
    device: str


@dataclass(frozen=True)
class Acted:
    """Answer to :class:`Act`.

    Attributes:
        actions: float32 `[B, C, A]`, in the env's units.
    """

    actions: np.ndarray


Command = Load | Report | Act | Save
COMMANDS: Kinds = {kind.__name__: kind for kind in (Load, Report, Act, Save)}
ANSWERS: Kinds = {kind.__name__: kind for kind in (Done, Acted, Failure)}
