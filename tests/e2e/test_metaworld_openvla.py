"""OpenVLA in small: real MetaWorld, a tiny network made from demonstrations, PPO."""

from __future__ import annotations

from pathlib import Path

import pytest
from internals import assemble, compose, load_checkpoint, read_metrics, train
from rlcore_testing.conformance.fake_env import fake_observation

from rlcore.contracts.rng import RowKeys
from rlcore.runs.env_facts import FILE, EnvFacts, read_env_facts

SMALL = [
    "env=metaworld",
    "model=openvla_tiny",
    "algorithm=ppo",
    "runner.logger.experiment_name=small",
    "runner.max_epochs=2",
    "cluster.backend=local",
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
    *(f"env.{side}.{setting}" for side in ("train", "eval") for setting in (
        "tasks=[button-press-topdown-v3]", "image_size=64", "fast_render=true",
        "max_episode_steps=20", "total_num_envs=2", "render_final=false",
    )),
    "env.eval.trials_per_task=2",
    "collect.speed=1.0",
    "collect.episodes_per_task=2",
    "collect.max_episode_steps=150",
    "sft.enabled=true",
    "sft.max_steps=6",
    "sft.batch_size=16",
    "actor.global_batch_size=8",
    "actor.micro_batch_size=4",
    "actor.optim.lr=1e-3",
    "actor.fsdp_config.gradient_checkpointing=true",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log_path = tmp_path_factory.mktemp("logs")
    train(assemble(compose([*SMALL, f"runner.logger.log_path={log_path}"])))
    return log_path / "small"


@pytest.mark.long
def test_two_updates(folder: Path):
    lines = [m for m in read_metrics(folder / "metrics.jsonl") if "train/loss" in m]
    assert len(lines) == 2
    for line in lines:
        assert line["env/episodes"] == 2 and 0 < line["env/episode_len"] <= 20
        assert line["train/actor/grad_norm"] > 0
        # one step per epoch of updates: the policy is scored where it acted
        assert line["train/actor/approx_kl"] == pytest.approx(0, abs=1e-6)


@pytest.mark.long
def test_what_was_learnt_loads_again(folder: Path, tmp_path: Path):
    """Saved, loaded and saved again: the same bytes; and it decides under what it learnt."""
    from rlcore_model_openvla.policy import make

    saved = load_checkpoint(folder).policy_path
    assembly = assemble(compose([*SMALL, f"actor.model.model_path={saved}"]))
    spec = assembly.env_specs["eval"]
    policy = make(assembly.config.actor.model, env_spec=spec)
    policy.save_pretrained(tmp_path)
    assert read_env_facts(saved) == EnvFacts.from_spec(
        spec
    )  # written by the worker, not by the policy
    names = sorted(path.name for path in saved.iterdir() if path.name != FILE)
    assert {"model.safetensors", "rl_heads.safetensors", "dataset_statistics.json"} <= set(names)
    for name in names:
        assert (tmp_path / name).read_bytes() == (saved / name).read_bytes(), name
    bounds = policy.processor.scaling.action
    keys = RowKeys(((1, 0), (1, 1)))
    actions = policy.act(policy.prepare(fake_observation(spec, 2)), keys).actions
    assert actions.shape == (2, 5, 4)
    assert (actions > bounds.low).all() and (actions < bounds.high).all()
