"""The kit on envs that gymnasium itself ships, in one process and as vector envs."""

from __future__ import annotations

import numpy as np
import pytest
from rlcore_testing import EnvConformance

from rlcore.contracts.specs import Episode

POLE = {"id": "CartPole-v1", "success": "return:15", "image_size": 16, "num_processes": 0}


class TestCartPole(EnvConformance):
    name = "gymnasium"
    settings = {**POLE, "max_episode_steps": 100}

    def solution(self):
        # to and fro keeps the pole up for more than 15 steps
        actions = np.array([[1.0, -1.0], [-1.0, 1.0]] * 8, np.float32)[:15]
        return Episode(0, 0), actions


class TestPendulum(EnvConformance):
    """A box of actions whose range is not [-1, 1], without cameras."""

    name = "gymnasium"
    settings = {
        "id": "Pendulum-v1",
        "cameras": {},
        "success": "reward:-0.1",
        "num_processes": 0,
        "max_episode_steps": 100,
    }


class TestFrozenLake(EnvConformance):
    """Choices as observation and action."""

    name = "gymnasium"
    settings = {
        "id": "FrozenLake-v1",
        "kwargs": {"is_slippery": False},
        "success": "reward:1",
        "cameras": {},
        "num_processes": 0,
        "max_episode_steps": 100,
    }

    test_trials_have_different_starts = None  # it has one start

    def solution(self):
        # of 4 x 4: down, down, right, right, down, right
        return Episode(0, 0), np.eye(4, dtype=np.float32)[[1, 1, 2, 2, 1, 2]]


class Vector(EnvConformance):
    __test__ = False
    name = "gymnasium"
    settings = {**POLE, "max_episode_steps": 100, "vectorization": "sync"}
    solution = TestCartPole.solution


class TestNextStep(Vector):
    __test__ = True
    settings = {**Vector.settings, "autoreset": "NextStep"}


class TestSameStep(Vector):
    __test__ = True
    settings = {**Vector.settings, "autoreset": "SameStep"}


@pytest.mark.long
class TestDisabled(Vector):
    __test__ = True
    settings = {**Vector.settings, "autoreset": "Disabled"}


@pytest.mark.long
class TestAsync(Vector):
    __test__ = True
    settings = {**Vector.settings, "vectorization": "async"}
