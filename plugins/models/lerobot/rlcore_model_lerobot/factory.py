"""Make the policy in this process, or in one of the interpreter that LeRobot needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.contracts.specs import EnvSpec
from rlcore_model_lerobot.settings import LeRobotModelConfig

if TYPE_CHECKING:
    from rlcore_model_lerobot.elsewhere import PolicyElsewhere
    from rlcore_model_lerobot.policy import LeRobotPolicy


def make(config: LeRobotModelConfig, *, env_spec: EnvSpec) -> LeRobotPolicy | PolicyElsewhere:
    """Load the policy in `model_path`, or build one; the factory that the plugin names.

    Raises:
        UserError: as :func:`rlcore_model_lerobot.policy.make` and
            :class:`rlcore_model_lerobot.elsewhere.PolicyElsewhere` raise.
    """
    if config.interpreter() is not None:
        from rlcore_model_lerobot.elsewhere import PolicyElsewhere

        return PolicyElsewhere(config, env_spec)
    from rlcore_model_lerobot import policy

    return policy.make(config, env_spec=env_spec)
