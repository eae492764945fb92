"""The main job in small: real MetaWorld, a real tiny π0, PPO, on Ray."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import av
import pytest
from internals import assemble, compose, load_checkpoint, read_metrics, train
from safetensors.numpy import load_file

from rlcore.runs.learner_state import read_learner
from rlcore.runs.tables import read_results

PUBLISHED_METRICS = {
    f"{family}/{name}"
    for family, names in {
        "actor": "loss value_loss grad_norm approx_kl pg_clipfrac value_clip_ratio",
        "train/actor": "approx_kl clip_fraction clipped_ratio grad_norm lr policy_loss",
        "train/critic": "value_loss value_clip_ratio explained_variance",
        "train": "entropy_loss loss",
        "rollout": "returns_mean advantages_mean advantages_max advantages_min rewards",
        "env": "episode_len success_once return reward",
    }.items()
    for name in names.split(" ")
}

SMALL_QUICKSTART = [
    "experiment=quickstart_ppo",
    "env.train.tasks=[button-press-topdown-v3,faucet-open-v3]",
    "env.eval.tasks=[button-press-topdown-v3,faucet-open-v3]",
    "collect.speed=1.0",
    "collect.episodes_per_task=2",
    "collect.stride=5",
    "sft.max_steps=6",
    "sft.batch_size=16",
    "runner.max_epochs=2",
    "env.train.total_num_envs=6",
    "env.train.rollout_epoch=1",
    "env.train.max_episode_steps=30",
    "env.eval.total_num_envs=6",
    "env.eval.max_episode_steps=30",
    "env.eval.trials_per_task=3",
    "actor.global_batch_size=16",
    "actor.micro_batch_size=16",
    "algorithm.update_epoch=1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, ray_cluster) -> Path:
    log_path = tmp_path_factory.mktemp("logs")
    train(assemble(compose([*SMALL_QUICKSTART, f"runner.logger.log_path={log_path}"])))
    return log_path / "quickstart_ppo"


def test_all_published_metrics_are_logged(folder: Path):
    assert len(PUBLISHED_METRICS) == 26
    names = {name for line in read_metrics(folder / "metrics.jsonl") for name in line}
    assert names >= PUBLISHED_METRICS, PUBLISHED_METRICS - names


def test_metrics_keep_within_their_meaning(folder: Path):
    lines = [m for m in read_metrics(folder / "metrics.jsonl") if "env/return" in m]
    assert len(lines) == 2
    for line in lines:
        assert 0 <= line["train/actor/clip_fraction"] <= 1
        assert 0 <= line["env/success_once"] <= 1
        assert 0 < line["env/episode_len"] <= 30
        assert line["env/episodes"] == 6
    # the first update trains the critic alone: the policy has not moved
    assert lines[0]["train/actor/approx_kl"] == pytest.approx(0, abs=1e-6)
    assert lines[0]["train/actor/lr"] == 0
    assert lines[1]["train/actor/lr"] > 0


def test_evaluations_are_paired_and_held_out(folder: Path):
    sides = [read_results(folder / "eval" / f"{label}.parquet") for label in ("before", "after")]
    starts = [[(r.task, r.trial) for r in side] for side in sides]
    assert starts[0] == starts[1]
    assert len(set(starts[0])) == 6  # 2 tasks, 3 trials, each once
    assert all(trial >= 10000 for _, trial in starts[0])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["success_after"]["n"] == 6
    assert {"rlcore", "torch", "ray", "metaworld", "mujoco"} & set(summary["versions"]) >= {
        "rlcore",
        "torch",
        "ray",
        "metaworld",
    }


def test_the_manifest_says_how_pixels_were_made(folder: Path):
    manifest = json.loads((folder / "manifest.json").read_text())
    for side in ("train", "eval"):  # "gl" is of the machine that drew
        assert manifest["render_settings"][side]["fast_render"] is True
        assert manifest["render_settings"][side]["gl"]
    assert manifest["evaluation_protocol"]["sampling"] == "deterministic"
    assert manifest["seeds"] == {"root": 0}


def test_checkpoint_holds_policy_and_optimizer(folder: Path):
    checkpoint = load_checkpoint(folder)
    assert checkpoint.step == 2
    assert read_learner(checkpoint.path)["state"]["optimizer"]["steps"]["policy"] > 0
    names = {path.name for path in checkpoint.policy_path.rglob("*") if path.is_file()}
    assert {"model.safetensors", "norm_stats.json"} <= names
    assert (folder / "video" / "eval" / "after.mp4").stat().st_size > 1000


@pytest.mark.long
def test_an_evaluated_episode_is_played_again(folder: Path, tmp_path: Path):
    """In a process of its own: the simulator is in it, and MuJoCo reads its variables once."""
    (row, *_) = read_results(folder / "eval" / "after.parquet")
    done = subprocess.run(
        [sys.executable, "-m", "rlcore.cli.main", "replay", str(folder), f"--task={row.task}",
         f"--trial={row.trial}", f"--out={tmp_path}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "episode.json").read_text())
    assert facts["evaluated"] == vars(row) and facts["differences"] == []
    assert "\nas evaluated: " in done.stdout
    arrays = load_file(tmp_path / "episode.safetensors")
    chunks = -(-row.length // 10)
    assert arrays["actions"].shape == (chunks, 10, 4)
    assert arrays["cameras/corner2_published"].shape == (chunks, 64, 64, 3)
    assert arrays["cameras/corner2_published"].std() > 10
    assert arrays["replay/chain"].shape[0] == chunks
    with av.open(str(tmp_path / "episode.mp4")) as film:  # the start and every step
        assert sum(1 for _ in film.decode(video=0)) == row.length + 1
