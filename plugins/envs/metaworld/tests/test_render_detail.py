"""Fewer faces change frames a little, and nothing else of an episode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from metaworld_cases import BUTTON, CAMERA, DRAWER, REACH, small_config
from rlcore_env_metaworld.pool import make_pool

from rlcore.contracts.specs import Episode

TASKS = [BUTTON, DRAWER, REACH, "door-open-v3", "pick-place-v3"]
SIZE = 64


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One for all tests: meshes are made once."""
    base = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    return base


def course(
    detail: str, tasks: list[str], episodes: int, steps: int
) -> tuple[list[bytes], np.ndarray]:
    """All that MuJoCo integrates, rewards and ends of each step, and a frame of each episode."""
    pool = make_pool(small_config(tasks=tasks, image_size=SIZE, render_detail=detail))
    random = np.random.default_rng(0)
    record, frames = [], []
    for number in range(episodes):
        task = number % len(tasks)
        simulator = pool.take(task)
        simulator.start(Episode(task, number))
        for _ in range(steps):
            step = simulator.step(random.uniform(-1, 1, 4).astype(np.float32))
            data = simulator._env.data
            state = (data.qpos, data.qvel, data.qacc, data.mocap_pos, simulator.observation)
            record.append(
                np.concatenate([np.ravel(part) for part in state]).tobytes()
                + repr((step.reward, step.success)).encode()
            )
        out = np.zeros((SIZE, SIZE, 3), np.uint8)
        simulator.draw({CAMERA: out})
        frames.append(out)
        pool.give_back(simulator)
    pool.close()
    return record, np.stack(frames).astype(int)


@pytest.mark.long
@pytest.mark.parametrize(
    ("tasks", "episodes", "steps"),
    [
        pytest.param(TASKS[:2], 4, 30, id="few"),
        pytest.param(TASKS, 50, 100, id="fifty", marks=pytest.mark.long),
    ],
)
def test_states_rewards_and_ends_are_equal_and_frames_nearly(
    tasks: list[str], episodes: int, steps: int
) -> None:
    exact, frames = course("exact", tasks, episodes, steps)
    pixel, drawn = course("pixel", tasks, episodes, steps)
    assert exact == pixel
    apart = np.abs(frames - drawn)
    assert 0 < apart.mean() < 0.5
    assert (apart.max(axis=-1) > 16).mean() < 0.01
