"""A real study, killed and resumed: the same trials, the same results, none made twice.

`pytest -m long -n0 plugins/sweeps/tests/test_study_kills.py`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rlcore_sweeps.study_record import StudyRecord

RLCORE = [sys.executable, "-m", "rlcore.cli.main"]
TOY = [
    *("train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=12"),
    *("cluster.backend=local", "cluster.component_placement={env: 0, rollout: 0, actor: 0}"),
    *("env.train.total_num_envs=64", "env.train.max_episode_steps=10"),
    *("env.eval.total_num_envs=20", "env.eval.max_episode_steps=10", "env.eval.trials_per_task=20"),
    *("runner.val_check_interval=3", "runner.val_before_train=false", "algorithm.update_epoch=4"),
    *("actor.global_batch_size=64", "actor.micro_batch_size=64"),
    *("sft.enabled=true", "sft.max_steps=25", "collect.episodes_per_task=8"),
]
STUDY = [
    *("-m", "hydra/sweeper=rlcore_optuna", "hydra.sweeper.n_trials=12", "sweep.seeds=0,1"),
    *("actor.optim.lr=tag(log,interval(1e-5,1e-1))", "algorithm.gae_lambda=interval(0.8,1.0)"),
    *("hydra.sweeper.sampler_options.n_startup_trials=4", "hydra.sweeper.seed=1"),
    *("hydra.sweeper.pruner_options.n_startup_trials=3", "sweep.parallel=2"),
]


def has_trials(sweep: Path, trials: int) -> bool:
    found = StudyRecord.load(sweep) if (sweep / "trials.json").is_file() else None
    return found is not None and len(found.trials) >= trials


@pytest.mark.long
@pytest.mark.timeout(3600)  # 44 short runs on two cores
def test_a_killed_study_goes_on_to_the_same_trials(log_path: Path):
    place = [f"runner.logger.log_path={log_path}"]
    whole, struck = log_path / "whole", log_path / "struck"
    subprocess.run([*RLCORE, *TOY, *place, *STUDY, f"hydra.sweep.dir={whole}"], check=True)
    driver = subprocess.Popen([*RLCORE, *TOY, *place, *STUDY, f"hydra.sweep.dir={struck}"])
    while not has_trials(struck, 7):  # in the middle of the fourth batch
        assert driver.poll() is None
        time.sleep(0.2)
    time.sleep(5)
    driver.kill()
    driver.wait()
    subprocess.run([*RLCORE, "resume", str(struck)], check=True)
    expected, found = StudyRecord.load(whole), StudyRecord.load(struck)
    assert found is not None and expected is not None
    assert found == expected
    assert expected.count("pruned") > 0 and expected.heldout
    for trial in expected.trials:
        for run in trial.runs:
            summary = json.loads((whole / run.folder / "summary.json").read_text())
            assert ("pruned by median" in summary.get("stopped", "")) == (run.pruned is not None)
            assert summary["success_after"]["rate"] == pytest.approx(run.value)
    assert replace(found, heldout={}) == replace(expected, heldout={})
    jobs = sum(len(trial.runs) for trial in expected.trials)
    assert (
        len(list(struck.glob("[0-9]*-*"))) <= jobs + 2
    )  # those that were going on came to nothing
