"""Fewer faces change frames a little, and nothing else of an episode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from libero_cases import MILK, SOUP, needs_libero, small_config
from rlcore_stand_ins.libero.pool import make_pool

from rlcore.contracts.specs import Episode

SIZE = 32


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One for all tests: meshes are made once."""
    base = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    return base


def course(
    detail: str, tasks: list[str], episodes: int, steps: int
) -> tuple[list[bytes], dict[str, np.ndarray]]:
    """All that MuJoCo integrates, rewards and ends of each step, and frames of each episode."""
    pool = make_pool(small_config(tasks=tasks, image_size=SIZE, render_detail=detail))
    random = np.random.default_rng(0)
    record: list[bytes] = []
    frames: dict[str, list[np.ndarray]] = {"agentview": [], "wrist": []}
    for number in range(episodes):
        task = number % len(tasks)
        simulator = pool.take(task)
        simulator.start(Episode(task, number % 40))
        for _ in range(steps):
            step = simulator.step(random.uniform(-1, 1, 7).astype(np.float32))
            data = simulator._row.data
            state = (data.qpos, data.qvel, data.qacc, data.ctrl, simulator.states)
            record.append(
                np.concatenate([np.ravel(part) for part in state]).tobytes()
                + repr((step.reward, step.success)).encode()
            )
        out = {name: np.zeros((SIZE, SIZE, 3), np.uint8) for name in frames}
        simulator.draw(out)
        for name, frame in out.items():
            frames[name].append(frame)
        pool.give_back(simulator)
    pool.close()
    return record, {name: np.stack(each).astype(int) for name, each in frames.items()}


@needs_libero
@pytest.mark.parametrize(
    ("tasks", "episodes", "steps"),
    [
        pytest.param([SOUP], 2, 10, id="few", marks=pytest.mark.long),
        pytest.param([SOUP, MILK], 50, 60, id="fifty", marks=pytest.mark.long),
    ],
)
def test_states_rewards_and_ends_are_equal_and_frames_nearly(
    tasks: list[str], episodes: int, steps: int
) -> None:
    exact, frames = course("exact", tasks, episodes, steps)
    pixel, drawn = course("pixel", tasks, episodes, steps)
    assert exact == pixel
    for name, each in frames.items():
        apart = np.abs(each - drawn[name])
        assert apart.mean() < 1.0
        assert (apart.max(axis=-1) > 16).mean() < 0.02
