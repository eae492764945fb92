"""Changes that a resume cannot make are refused from files alone, before the run starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from internals import compose, load, load_checkpoint, save_checkpoint, to_yaml

from rlcore.checks.facts import gather_facts
from rlcore.config.recipes import read_mapping
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.plugins.registry import load_plugins
from rlcore.runs.env_facts import EnvFacts
from rlcore.runs.folder import RunFolder
from rlcore.runs.learner_state import write_learner
from rlcore.training.fixed_keys import check_fixed_keys

LORA = ("model=pi0_tiny", "actor.model.is_lora=true", "actor.model.openpi.train_expert_only=false")


@pytest.fixture
def settle(log_path: Path) -> Callable[..., None]:
    """`settle(begun, changes, *tensors, **known)` resumes from a checkpoint whose learner holds
    these tensors; `known` are facts in place of those that are gathered."""

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
        now = load(folder.config, changes)
        facts = gather_facts(config, load_plugins())
        so_far = read_mapping(folder.config)
        facts = replace(facts, **known)
        check_fixed_keys(now, so_far, folder.path, load_checkpoint(path), facts)

    return settled


def test_another_rank_of_adapters_is_refused(refused, settle):
    with refused(ConfigError, "actor.model.lora_rank", 32):
        settle(LORA, ["actor.model.lora_rank=8"], "optimizer.policy.0.step")
    settle(("model=toy",), ["actor.model.lora_rank=8"], "optimizer.policy.0.step")  # is not read


def test_a_precision_without_copies_of_the_optimizer_is_refused(refused, settle):
    bf16 = ("model=pi0_tiny", "actor.model.precision=bf16")
    tensors = ("optimizer.policy.0.step", "optimizer.policy.0.master")
    redrawn = pytest.warns(ConfigWarning, match=r"actor\.model\.precision")
    with redrawn, refused(CheckpointError, "actor.model.precision", text=False):
        settle(bf16, ["actor.model.precision=fp32"], *tensors)
    settle(bf16, [], *tensors)
    with pytest.warns(ConfigWarning, match=r"actor\.model\.precision"):
        settle(("model=pi0_tiny",), ["actor.model.precision=bf16"], tensors[0])


def test_a_control_may_be_left_out_at_a_resume(settle):
    began = ("model=toy", "sft.enabled=true", "sft.control=demonstrations", "sft.lr=0.1")
    with pytest.warns(ConfigWarning) as caught:
        settle(began, ["sft.control=null", "sft.lr=0.2"], "optimizer.policy.0.step")
    assert [str(warning.message).partition(" ")[0] for warning in caught] == ["sft.lr"]


def test_a_key_of_the_random_start_is_a_warning(settle):
    began = ("model=toy", "actor.model.init_std=0.3")
    with pytest.warns(ConfigWarning, match=r"actor\.model\.init_std .* 0\.3"):
        settle(began, ["actor.model.init_std=0.5"], "optimizer.policy.0.step")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # learned from demonstrations, or played only once
        for rest in (["sft.enabled=true"], ["runner.val_before_train=false"]):
            settle((*began, *rest), ["actor.model.init_std=0.5"], "optimizer.policy.0.step")


def test_another_rendering_than_the_checkpoints_is_a_warning(settle):
    toy = gather_facts(compose(["env=toy", "model=toy", "algorithm=ppo"]), load_plugins())
    exact, pixel = (
        replace(toy.envs["train"], render_settings={"render_detail": detail})
        for detail in ("exact", "pixel")
    )
    begun = (("model=toy",), [], "optimizer.policy.0.step")
    envs = {**toy.envs, "train": pixel}
    with pytest.warns(ConfigWarning, match=r"render_detail .*exact .*pixel in env\.train"):
        settle(*begun, envs=envs, trained_in=EnvFacts.from_spec(exact))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settle(*begun, envs=envs, trained_in=EnvFacts.from_spec(pixel))
