"""What a resume can not change is refused from files alone, before anything is started."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlcore.checks.facts import gather_facts
from rlcore.config.compose import compose, load, to_yaml
from rlcore.config.recipes import read_mapping
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.plugins.registry import load_plugins
from rlcore.runs.checkpoint import load_checkpoint, save_checkpoint
from rlcore.runs.env_facts import EnvFacts
from rlcore.runs.folder import RunFolder
from rlcore.runs.learner_state import write_learner
from rlcore.training.fixed_keys import check_fixed_keys

LORA = ("model=pi0_tiny", "actor.model.is_lora=true", "actor.model.openpi.train_expert_only=false")


@pytest.fixture
def settle(log_path: Path) -> Callable[..., None]:
    """`settle(begun, changes, *tensors, **known)`: go on from a checkpoint whose learner holds
    these; `known` are facts in place of those that are gathered."""

    def settled(begun: tuple[str, ...], changes: list[str], *tensors: str, **known: Any) -> None:
        folder = RunFolder.create(log_path, "run")
        config = compose(["env=toy", "algorithm=ppo", *begun])
        folder.write_config(to_yaml(config))
        tree = {"tensors": {name: torch.zeros(1) for name in tensors}, "state": {}}
        path = save_checkpoint(
            folder.checkpoints,
            1,
            save_policy=lambda path: (path / "weights").write_bytes(b"w"),
            save_learner=lambda path: write_learner(path, tree),
        )
        now, facts = load(folder.config, changes), gather_facts(config, load_plugins())
        so_far = read_mapping(folder.config)
        facts = replace(facts, **known)
        check_fixed_keys(now, so_far, folder.path, load_checkpoint(path), facts)

    return settled


def test_the_rank_of_adapters(settle):
    with pytest.raises(ConfigError, match=r"lora_rank can't be changed to 8: .*began with 32"):
        settle(LORA, ["actor.model.lora_rank=8"], "optimizer.policy.0.step")
    settle(("model=toy",), ["actor.model.lora_rank=8"], "optimizer.policy.0.step")  # is not read


def test_the_precision_that_the_optimizer_has_no_copies_for(settle):
    bf16 = ("model=pi0_tiny", "actor.model.precision=bf16")
    tensors = ("optimizer.policy.0.step", "optimizer.policy.0.master")
    redrawn = pytest.warns(ConfigWarning, match=r"actor\.model\.precision")
    with redrawn, pytest.raises(CheckpointError, match="fp32 copies"):
        settle(bf16, ["actor.model.precision=fp32"], *tensors)
    settle(bf16, [], *tensors)
    with pytest.warns(ConfigWarning, match=r"actor\.model\.precision"):
        settle(("model=pi0_tiny",), ["actor.model.precision=bf16"], tensors[0])


def test_a_control_may_be_left_out_after_all(settle):
    began = ("model=toy", "sft.enabled=true", "sft.control=demonstrations", "sft.lr=0.1")
    with pytest.warns(UserWarning, match="sft.lr has no effect") as said:
        settle(began, ["sft.control=null", "sft.lr=0.2"], "optimizer.policy.0.step")
    assert [str(each.message).partition(" ")[0] for each in said] == ["sft.lr"]


def test_keys_of_a_random_start_are_announced(settle):
    began = ("model=toy", "actor.model.init_std=0.3")
    with pytest.warns(UserWarning, match=r"actor\.model\.init_std has no effect on .* with 0\.3"):
        settle(began, ["actor.model.init_std=0.5"], "optimizer.policy.0.step")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # learned from demonstrations, or played only once
        for rest in (["sft.enabled=true"], ["runner.val_before_train=false"]):
            settle((*began, *rest), ["actor.model.init_std=0.5"], "optimizer.policy.0.step")


def test_frames_of_another_detail_than_the_checkpoints_are_announced(settle):
    toy = gather_facts(compose(["env=toy", "model=toy", "algorithm=ppo"]), load_plugins())
    exact, pixel = (
        replace(toy.envs["train"], render_settings={"render_detail": detail})
        for detail in ("exact", "pixel")
    )
    begun = (("model=toy",), [], "optimizer.policy.0.step")
    envs = {**toy.envs, "train": pixel}
    said = "render_detail was exact when step_000001 was trained and is pixel in env.train"
    with pytest.warns(ConfigWarning, match=said):
        settle(*begun, envs=envs, trained_in=EnvFacts.from_spec(exact))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settle(*begun, envs=envs, trained_in=EnvFacts.from_spec(pixel))
