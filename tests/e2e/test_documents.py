"""What a reader of RLinf's documents types first, as printed there: on real MetaWorld, with a tiny
model in place of the checkpoint."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_metaworld_pi0 import PUBLISHED_METRICS

from rlcore.results.tables import read_results
from rlcore.track.checkpoint import load_checkpoint
from rlcore.track.trackers import read_metrics

ROOT = Path(__file__).parents[2]
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
TINY = [
    *("model=pi0_tiny", "cluster.backend=local", "cluster.component_placement={env: 0, "
      "rollout: 0, actor: 0}", "env.train.sentences=own"),
    *(f"env.{side}.{key}" for side in ("train", "eval")
      for key in ("tasks=[reach-v3]", "total_num_envs=2", "max_episode_steps=10",
                  "image_size=64", "num_processes=1")),
    *("env.train.rollout_epoch=1", "env.eval.trials_per_task=2", "actor.model.openpi.num_steps=2"),
]  # fmt: skip
# Blocks of the documents, line by line; only names of models and envs are exchanged.
AS_PRINTED = """# @package _global_
defaults:
  - env/train: metaworld_50
  - env/eval: metaworld_50
  - model/pi0_tiny@actor.model
  - override /algorithm: ppo
runner:
  task_type: embodied
  logger:
    log_path: "../results"
    project_name: rlinf
    experiment_name: "test_metaworld"
    logger_backends: ["tensorboard"]  # wandb, swanlab
  max_epochs: 1000
  max_steps: -1
  only_eval: True
cluster:
  num_nodes: 1
  component_placement:
    env,rollout,actor: all
rollout:
  pipeline_stage_num: 2
env:
  eval:
    video_cfg:
      save_video: True
      info_on_video: True
      video_base_dir: ${runner.logger.log_path}/video/eval
fsdp:
  gradient_checkpointing: False
algorithm:
  reward_type: chunk_level
  logprob_type: chunk_level
  adv_type: gae
  loss_type: actor_critic
"""


def typed(line: str, *more: str, cwd: Path = ROOT) -> str:
    """What a line of a shell prints, with further words behind it."""
    done = subprocess.run(
        [*line.split(), *more], cwd=cwd, env=os.environ | {"PATH": PATH},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that the launch command leaves behind."""
    logs = tmp_path_factory.mktemp("work") / "logs"
    typed(
        "bash examples/embodiment/run_embodiment.sh metaworld_50_ppo_openpi",
        *TINY, "runner.max_epochs=1", "actor.micro_batch_size=4", "actor.global_batch_size=4",
        f"runner.logger.log_path={logs}",
    )  # fmt: skip
    return logs / "metaworld_50_ppo_openpi"


def test_the_install_line():
    said = typed(
        "bash requirements/install.sh embodied --model openpi --env metaworld", "--dry-run"
    )
    assert "-e .[metaworld,openpi]" in said and "source .venv/bin/activate" in said


def test_training_begins_with_the_recipes_name(trained):
    names = {name for line in read_metrics(trained / "metrics.jsonl") for name in line}
    assert names >= PUBLISHED_METRICS
    assert load_checkpoint(trained).step == 1


def test_evaluation_takes_the_recipes_file(trained, tmp_path):
    said = typed(
        "bash examples/embodiment/eval_embodiment.sh "
        "examples/embodiment/config/metaworld_50_ppo_openpi.yaml",
        *TINY, f"actor.model.model_path={load_checkpoint(trained).policy_path}",
        f"runner.logger.log_path={tmp_path}",
    )  # fmt: skip
    assert "success after" in said
    (rows,) = tmp_path.glob("*/eval/eval.parquet")
    assert len(read_results(rows)) == 2


def test_a_recipe_of_printed_blocks_is_only_evaluated(tmp_path):
    own = tmp_path / "work" / "experiment" / "test_metaworld.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(AS_PRINTED)
    said = typed(
        f"bash {ROOT}/examples/embodiment/eval_embodiment.sh experiment/test_metaworld.yaml",
        *TINY[1:], "env.eval.total_num_envs=4", cwd=tmp_path / "work",
    )  # fmt: skip
    run = tmp_path / "results" / "test_metaworld"
    assert "results/test_metaworld" in said
    assert len(read_results(run / "eval" / "eval.parquet")) == 2
    assert not list((run / "checkpoints").glob("step_*"))
    assert list((tmp_path / "results" / "video" / "eval").rglob("*.mp4"))


@contextmanager
def tensorboard(logs: Path) -> Iterator[str]:
    """Its address, while the printed line runs; port 0 lets it take one that is free here."""
    line = f"tensorboard --logdir ./{logs.name} --port 0"
    said = logs.parent / "tensorboard.txt"
    with said.open("w") as file:
        running = subprocess.Popen(
            line.split(), cwd=logs.parent, env=os.environ | {"PATH": PATH},
            stdout=file, stderr=file,
        )  # fmt: skip
    try:
        while not (found := re.search(r"http://\S+", said.read_text())):
            assert running.poll() is None, said.read_text()
            time.sleep(0.1)
        yield found[0].rstrip("/")
    finally:
        running.kill()
        running.wait()


def test_tensorboard_shows_both_families_of_names(trained):
    with tensorboard(trained.parent) as address:
        wanted, shown = f"{address}/data/plugin/scalars/tags", {}
        # no proxy, whatever the variables name, leads to this machine
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not shown:  # it starts, and then reads
            with contextlib.suppress(OSError), direct.open(wanted, timeout=30) as answer:
                shown = json.load(answer)
            time.sleep(0.1)
    (tags,) = shown.values()
    assert set(tags) >= PUBLISHED_METRICS
