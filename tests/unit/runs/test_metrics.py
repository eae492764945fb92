"""Metrics of rollouts and episodes, worked by hand."""

import subprocess
import sys

import pytest

from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.specs import Episode
from rlcore.runs.metrics import env_metrics, rollout_metrics


def outcome(success, total, length, finished=True):
    return EpisodeOutcome(Episode(0, 0), success, total, length, finished)


def test_env_metrics_by_hand():
    # returns 1 and 3 over 4 and 10 steps; the third column ended before its episode did
    metrics = env_metrics(
        [outcome(True, 1.0, 4), outcome(False, 3.0, 10), outcome(True, 9.0, 5, finished=False)]
    )
    assert metrics == {
        "env/success_once": 0.5,
        "env/return": 2.0,
        "env/episode_len": 7.0,
        "env/reward": pytest.approx((1 / 4 + 3 / 10) / 2),
        "env/episodes": 2.0,
    }


def test_env_metrics_of_nothing_and_of_evaluations():
    assert env_metrics([]) == {"env/episodes": 0.0}
    assert env_metrics([outcome(True, 1.0, 2)], prefix="eval")["eval/success_once"] == 1.0


def test_rollout_metrics_against_a_loop(play):
    trajectory = play(chunks=7, columns=6)
    trajectory.episode[3:] += 1  # two episodes a column
    T, N, C, _ = trajectory.shape
    chunks = reward = executed = 0
    returns: dict[tuple[int, int], float] = {}
    for t in range(T):
        for n in range(N):
            used = [c for c in range(C) if trajectory.valid[t, n, c]]
            chunks = chunks + bool(used)
            executed = executed + len(used)
            gained = sum(float(trajectory.rewards[t, n, c]) for c in used)
            reward += gained
            if used:
                episode = (n, int(trajectory.episode[t, n]))
                returns[episode] = returns.get(episode, 0.0) + gained
    assert executed < chunks * C
    assert rollout_metrics(trajectory) == {
        "rollout/rewards": pytest.approx(reward / chunks, rel=1e-5),
        "rollout/chunks": chunks,
        "rollout/valid_fraction": executed / (chunks * C),
        "rollout/returns_mean": pytest.approx(sum(returns.values()) / len(returns), rel=1e-5),
    }
    assert len(returns) > N  # some columns hold several


def test_only_modules_with_tensors_load_a_tensor_library():
    modules = ["metrics", "statistics", "tables", "summary", "folder", "trackers", "checkpoint"]
    code = (
        f"import sys, {', '.join(f'rlcore.runs.{module}' for module in modules)}\n"
        "sys.exit({'torch', 'ray', 'gymnasium', 'tensorboard'} & set(sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
