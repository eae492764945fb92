"""`rlcore export RUN DEST --episodes`: the episodes of an evaluation as a data set."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

import rlcore
from rlcore.cli.main import main
from rlcore.demonstrations.datasets import format_of

PAGE = Path(__file__).parents[4] / "docs/your-data.md"
QUICK = (
    "cluster.backend=local",
    "cluster.torch_threads=1",
    "runner.max_epochs=1",
    "runner.val_before_train=false",
    "runner.logger.logger_backends=[]",
    "rollout.forward_batch=2",
    "algorithm=ppo",
    "actor.model.num_action_chunks=2",
    "actor.optim.lr=1e-6",
)
TOY = (
    "env=toy",
    "model=toy",
    "env.*.tasks=[reach-left,reach-up]",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=2",
    "env.eval.trials_per_task=3",
    "actor.micro_batch_size=16",
    "actor.global_batch_size=32",
    "sft.enabled=true",
    "sft.max_steps=40",
    "sft.val_fraction=0",
    "collect.episodes_per_task=4",
)
METAWORLD = (
    "env=metaworld",
    "model=pi0_tiny",
    "env.*.tasks=[handle-press-v3,button-press-v3]",
    "env.*.image_size=64",
    "env.*.fast_render=true",
    "env.*.render_detail=pixel",
    "env.*.max_episode_steps=24",
    "env.train.total_num_envs=4",
    "env.eval.total_num_envs=2",
    "env.eval.trials_per_task=2",
    "algorithm.group_size=1",
    "actor.micro_batch_size=4",
    "actor.global_batch_size=8",
)


def exported(run: Path, dest: Path, which: str, form: str = "lerobot_images") -> int:
    return main(["export", str(run), str(dest), "--episodes", which, "--format", form])


def same_as_evaluated(run: Path, dest: Path) -> None:
    """Episodes, outcomes, and the states that the policy saw, with its actions between."""
    saved = rlcore.open_run(run)
    rows = sorted(saved.evaluated(saved.checkpoint()), key=lambda row: (row.task, row.trial))
    lines = (dest / "meta/rlcore_episodes.jsonl").read_text().splitlines()
    records = [SimpleNamespace(**json.loads(line)) for line in lines]
    kept = sorted(records, key=lambda row: (row.task, row.trial))
    evaluated = [(row.task, row.trial, row.success, row.length) for row in rows]
    assert [(row.task, row.trial, row.success, row.length) for row in kept] == evaluated
    table = pq.read_table(dest / kept[0].file)
    assert table["next.success"].to_pylist()[-1] == kept[0].success
    trace = saved.replay(kept[0].task, kept[0].trial).trace
    ours = np.stack(table["action"].to_numpy())
    theirs = trace.arrays["actions"][trace.arrays["valid"]]
    np.testing.assert_array_equal(ours, theirs)
    states = np.stack(table["observation.state"].to_numpy())
    seen = np.cumsum([0, *trace.arrays["valid"].sum(1)])[:-1]
    np.testing.assert_array_equal(states[seen], trace.arrays["states"])


@pytest.mark.long
def test_successes_and_failures(tmp_path, capfd):
    run = rlcore.train(*TOY, *QUICK, f"runner.logger.log_path={tmp_path}").folder
    saved = rlcore.open_run(run)
    wins = [row for row in saved.evaluated(saved.checkpoint()) if row.success]
    assert 0 < len(wins) < 6  # else there is nothing to tell apart
    (typed,) = re.findall(r"^    rlcore (export .+)$", PAGE.read_text(), re.MULTILINE)
    places = {"RUN": str(run), "won": str(tmp_path / "won")}
    assert main([places.get(word, word) for word in typed.split()]) == 0
    info = json.loads((tmp_path / "won/meta/info.json").read_text())
    assert info["total_episodes"] == len(wins)
    assert exported(run, tmp_path / "won", "failures") == 0  # the others beside them
    same_as_evaluated(run, tmp_path / "won")
    assert exported(run, tmp_path / "won", "all") == 0
    assert "0 episodes" in capfd.readouterr().out
    # and it is learned from: the successes alone
    learned, _ = format_of(tmp_path / "won").read(tmp_path / "won").split(0.0, 0)
    assert len(learned) == len(wins)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/thesis.tex").write_text("precious")
    assert exported(run, tmp_path / "thesis", "all") == 2
    assert str(tmp_path / "thesis") in capfd.readouterr().err


@pytest.mark.long
def test_a_real_simulator_repeats_its_steps(tmp_path):
    run = rlcore.train(*METAWORLD, *QUICK, f"runner.logger.log_path={tmp_path}").folder
    assert exported(run, tmp_path / "all", "all") == 0
    same_as_evaluated(run, tmp_path / "all")
