"""What benchmarks/sac.py asks of rlcore, and how it reads a side's log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from internals import compose

ROOT = Path(__file__).parents[3]
SIDE = """
import sys, time
for step, success in ((1, 0.25), (2, 0.5)):
    while time.process_time() < 0.1 * step:  # CPU time is counted in hundredths of a second
        pass
    with open(sys.argv[1], "a") as log:
        log.write('{{"step": %d}}\\n{{"step": %d, "env/success_once": %f}}\\n' % (0, step, success))
    time.sleep(1)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def benchmarks() -> Iterator[None]:
    """The benchmarks, importable as from their folder."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


def test_our_side_makes_as_many_gradient_steps_as_env_steps():
    from sac import WINDOW, ours

    words = [word.format(SAC_SEED=3, UPDATES=2) for word in ours("runs")[2:]]
    config = compose(words)
    train = config.env.train
    played = train.total_num_envs * train.rollout_epoch * train.max_episode_steps
    assert config.algorithm.steps == played == WINDOW
    assert config.algorithm.actor_every == config.actor.model.num_action_chunks == 1
    assert config.runner.seed == 3


def test_a_log_has_a_row_for_each_line_with_success(tmp_path):
    from sac import WINDOW, watch

    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-c", SIDE.format(), str(log), "0"]
    rows = list(watch(command, log, {}))
    assert [(row.env_steps, row.success) for row in rows] == [(WINDOW, 0.25), (2 * WINDOW, 0.5)]
    assert 0 < rows[0].cpu_seconds < rows[1].cpu_seconds
    log.unlink()
    with pytest.raises(subprocess.CalledProcessError):
        list(watch([*command[:-1], "3"], log, {}))
