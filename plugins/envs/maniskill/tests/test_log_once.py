"""What ManiSkill logs again and again reaches the user once."""

from __future__ import annotations

import logging

import pytest
import rlcore_env_maniskill.log_once as log_once
from mani_skill.utils.logging_utils import logger
from maniskill_cases import PUSH, small_config
from rlcore_env_maniskill.simulator import Simulator

pytestmark = pytest.mark.usefixtures("vulkan")


def test_a_robot_that_a_task_does_not_list_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PushCube lists the robots panda and fetch."""
    seen: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: seen.append(record.getMessage()))
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "filters", [])  # as in a process that has built no env
    for _ in range(2):
        config = small_config(obs_mode="state", robot="panda_wristcam")
        Simulator(config, PUSH).close()
    assert len([message for message in seen if "panda_wristcam is not in" in message]) == 1
    log_once.log_once()
    for text in ("one", "another", "one"):
        logger.warning(text)
    assert seen[-2:] == ["one", "another"]
