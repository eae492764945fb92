"""A real sweep over env, model and algorithm at once: each of the eight trains and is evaluated.

`pytest -m long -n0 plugins/sweeps/tests/test_components.py`."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from internals import read_metrics
from rlcore_sweeps.job_record import JobRecord

from rlcore.cli.main import main
from rlcore.files.reading import read_json, read_yaml

PRESS = """\
env_type: metaworld
tasks: [button-press-v3]
image_size: 32
fast_render: true
reward: dense
num_processes: 0
_eval_:
  split: heldout
"""
SWEPT = ("env=toy,press", "model=pi0_tiny,openvla_tiny", "algorithm=ppo,grpo")
WORDS = [
    *("cluster.backend=local", "cluster.torch_threads=1", "runner.max_epochs=1"),
    *("cluster.component_placement={env: '0:0', rollout: '0:0', actor: '0:0'}",),
    *("algorithm.group_size=2", "algorithm.update_epoch=1", "runner.val_before_train=false"),
    *("actor.micro_batch_size=2", "actor.global_batch_size=4", "env.*.total_num_envs=2"),
    *("env.*.max_episode_steps=16", "env.eval.trials_per_task=2"),
]


@pytest.mark.long
def test_a_sweep_over_env_model_and_algorithm(log_path: Path, elsewhere: Path, capsys):
    (elsewhere / "env").mkdir()
    (elsewhere / "env/press.yaml").write_text(PRESS)
    place = ["--config-dir", str(elsewhere), f"hydra.sweep.dir={log_path}"]
    assert main(["train", "-m", *place, *SWEPT, *WORDS]) == 0
    combined = itertools.product(*(word.partition("=")[2].split(",") for word in SWEPT))
    records = JobRecord.load_all(log_path)
    assert [record.state for record in records] == 8 * ["done"]
    names = {"press": "metaworld", "pi0_tiny": "openpi", "openvla_tiny": "openvla"}
    for record, chosen in zip(records, combined, strict=True):
        run = Path(record.folder)
        config = read_yaml(run / "config.yaml")
        env, model = config["env"]["eval"]["env_type"], config["actor"]["model"]["model_type"]
        expected = [names.get(option, option) for option in chosen]
        assert [env, model, config["algorithm"]["name"]] == expected
        (line,) = [m for m in read_metrics(run / "metrics.jsonl") if "train/loss" in m]
        assert math.isfinite(line["train/loss"]) and line["train/actor/optimizer_steps"] >= 1
        tasks = 4 if env == "toy" else 1
        assert read_json(run / "summary.json")["success_after"]["n"] == 2 * tasks
    capsys.readouterr()
    assert main(["runs", "best", str(log_path)]) == 0
    assert "algorithm=grpo" in capsys.readouterr().out
