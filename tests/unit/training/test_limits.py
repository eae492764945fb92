"""The updates with a checkpoint, the number that is kept, and when a run is finished."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest
from internals import Checkpoint, compose

from rlcore.config.schema import RunnerConfig
from rlcore.contracts.errors import ConfigError
from rlcore.runs.folder import RunFolder
from rlcore.training.limits import check_limits, checkpoint_is_due


def due(runner: RunnerConfig, updates: int, steps: int = 0) -> list[int]:
    """Return the updates after which a checkpoint is made, for updates of `steps` env steps."""
    return [
        update
        for update in range(1, updates + 1)
        if checkpoint_is_due(runner, update, update * steps, (update - 1) * steps)
    ]


def test_by_default_a_killed_run_loses_a_tenth_of_its_updates():
    assert due(RunnerConfig(max_epochs=20), 20) == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert due(RunnerConfig(max_epochs=19), 19) == list(range(1, 20))  # 2 would be more
    assert due(RunnerConfig(max_epochs=3), 3) == [1, 2, 3]
    assert due(RunnerConfig(max_epochs=39), 39) == list(range(3, 40, 3))
    assert due(RunnerConfig(max_epochs=-1), 25) == [10, 20]


def test_where_env_steps_end_a_run_they_are_divided():
    # 1000 env steps, a twentieth is 50: passed at 60, 120 (100), 180 (150), 240 (200), 300, 360...
    assert due(RunnerConfig(max_epochs=-1, max_steps=1000), 6, steps=60) == [1, 2, 3, 4, 5, 6]
    # 50 is passed at 60, 100 at 100, 150 at 160, 200 at 200
    assert due(RunnerConfig(max_epochs=-1, max_steps=1000), 10, steps=20) == [3, 5, 8, 10]
    # whichever comes first
    assert due(RunnerConfig(max_epochs=100, max_steps=1000), 10, steps=20) == [3, 5, 8, 10]
    assert due(RunnerConfig(max_epochs=20, max_steps=10**9), 6, steps=20) == [2, 4, 6]


@pytest.mark.parametrize("steps", range(1, 220, 7))
def test_no_more_than_a_tenth_of_the_env_steps_lies_between(steps: int):
    updates = -(-1000 // steps)
    made = [0, *due(RunnerConfig(max_epochs=-1, max_steps=1000), updates, steps)]
    apart = [later - before for before, later in pairwise(made)]
    assert all(gap == 1 or gap * steps <= 100 for gap in apart)


def test_a_set_interval_is_kept():
    assert due(RunnerConfig(max_epochs=9, save_interval=-1, max_steps=100), 9, steps=10) == []
    assert due(RunnerConfig(max_epochs=9, save_interval=4, max_steps=100), 9, steps=10) == [4, 8]


@pytest.mark.parametrize(
    ("interval", "last", "kept"),
    [(None, None, 1), (None, 3, 3), (5, None, None), (5, 2, 2), (-1, None, None)],
)
def test_number_of_kept_checkpoints(interval, last, kept):
    assert RunnerConfig(save_interval=interval, keep_last=last).checkpoints_kept == kept


@pytest.mark.parametrize("choice", ["env=small", "experiment=mine"])
def test_a_finished_supervised_run_names_the_command_that_goes_on_from_it(
    tmp_path: Path, refused, choice: str
):
    """The command makes the run's choices, and can be pasted into a shell."""
    texts = {
        "env/small.yaml": "env_type: toy",
        "experiment/mine.yaml": "# @package _global_\ndefaults: [/env: toy, /model: toy]\n"
        "sft: {enabled: true}\n",
    }
    own = tmp_path / "my configs"
    for name, text in texts.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    words = [choice] if "experiment" in choice else [choice, "model=toy", "sft.enabled=true"]
    folder = RunFolder(tmp_path / "my run")
    folder.path.mkdir()
    folder.summary.touch()
    state = {"totals": {"env_steps": 0}, "steering": {"stopped": None}}
    at = Checkpoint(folder.checkpoints / "step_000003", 3, tmp_path, state)
    config = compose(words, config_dirs=[own])
    with refused(ConfigError, choice, "algorithm=NAME") as error:
        check_limits(config, folder, {}, at, named=False)
    rlcore, train, flag, *typed = shlex.split(error.value.hint)
    assert (rlcore, train, flag) == ("rlcore", "train", f"--config-dir={own}")
    typed[typed.index("algorithm=NAME")] = "algorithm=ppo"
    further = compose(typed, config_dirs=[own])
    assert further.actor.model.model_path == str(folder.sft)
    assert further.env.train.env_type == "toy"
    assert further.algorithm.name == "ppo" and not further.sft.enabled


@pytest.mark.parametrize(("supervised", "is_finished"), [("true", False), ("false", True)])
def test_only_supervised_training_reopens_a_finished_run_for_a_control(
    tmp_path: Path, refused, supervised: str, is_finished: bool
):
    """Without it there is no policy that a control goes on from."""
    folder = RunFolder(tmp_path)
    folder.summary.touch()
    state = {"totals": {"env_steps": 0}, "steering": {"stopped": None}}
    at = Checkpoint(folder.checkpoints / "step_000003", 3, tmp_path, state)
    words = ("env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=3")
    control = (f"sft.enabled={supervised}", "sft.control=demonstrations")
    config = compose([*words, *control])
    before = {"sft": {"enabled": supervised == "true", "control": None}}
    refusal = refused(ConfigError, "runner.max_epochs=6", text=False)
    with refusal if is_finished else nullcontext():
        check_limits(config, folder, before, at, named=False)
