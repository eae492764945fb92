"""What ManiSkill logs again and again reaches the user once."""

from __future__ import annotations

import logging

import pytest
from mani_skill.utils.logging_utils import logger
from maniskill_cases import PUSH, small_config
from rlcore_env_maniskill.log_once import log_once
from rlcore_env_maniskill.simulator import Simulator


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ManiSkill's logger writes, as in a process that has built no env."""
    messages: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: messages.append(record.getMessage()))
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "filters", [])
    return messages


def test_each_message_is_logged_once(logged: list[str]) -> None:
    for _ in range(2):
        log_once()
        for text in ("one", "another", "one"):
            logger.warning(text)
    assert logged == ["one", "another"]


@pytest.mark.usefixtures("vulkan")
def test_a_robot_that_a_task_does_not_list_is_warned_of_once(logged: list[str]) -> None:
    """PushCube lists the robots panda and fetch."""
    for _ in range(2):
        Simulator(small_config(obs_mode="state", robot="panda_wristcam"), PUSH).close()
    assert len([message for message in logged if "panda_wristcam is not in" in message]) == 1
