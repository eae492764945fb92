"""Wrappers of envs and algorithms, parameters chosen by name, and what envs measure besides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from rlcore.api import build_checked_env, build_policy, compose
from rlcore.checks.facts import env_spec
from rlcore.config import wrappers
from rlcore.config.component_specs import algorithm_needs
from rlcore.config.schema import AlgorithmWrapping, EnvWrapping
from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.errors import ConfigError, PluginError
from rlcore.contracts.specs import ComponentSpec, Episode
from rlcore.contracts.wrappers import EnvWrapper
from rlcore.learner.train_only import train_only
from rlcore.plugins.registry import load_plugins
from rlcore.runs.metrics import env_metrics
from rlcore.runs.tables import from_outcomes, read_results, write_results

TOY = ("env=toy", "model=toy")


def env_with(*chain):
    config = compose(
        *TOY, f"env.eval.wrappers=[{', '.join(chain)}]", "env.eval.max_episode_steps=3"
    )
    return build_checked_env(config, "eval", num_envs=2)


def rolled(*chain, action):
    """States of a start, and rewards, success and states of one chunk of a step."""
    env, spec = env_with(*chain)
    first = env.reset([0, 1], [Episode(0, 1000), Episode(1, 1000, 1)])["states"]
    result = env.chunk_step(np.full((2, 1, spec.action_dim), action, np.float32))
    env.close()
    return first, result


def test_a_cost_changes_rewards_alone():
    """Half of the range, squared: 0.25; an action outside counts as one at its end."""
    _, plain = rolled(action=0.5)
    _, half = rolled("{action_cost: {coef: 0.2}}", action=0.5)
    _, beyond = rolled("{action_cost: {coef: 0.2}}", action=7.0)
    np.testing.assert_allclose(plain.rewards - half.rewards, 0.05, atol=1e-6)
    np.testing.assert_allclose(rolled(action=7.0)[1].rewards - beyond.rewards, 0.2, atol=1e-6)
    assert np.array_equal(plain.success, half.success)
    assert np.array_equal(plain.observation["states"], half.observation["states"])


def test_noise_is_that_of_its_episode():
    chain = "{state_noise: {std: 0.1}}"
    (first, _), (noisy, moved), (again, _) = (
        rolled(*names, action=0.0) for names in ((), (chain,), (chain,))
    )
    noise = noisy - first
    assert np.array_equal(noisy, again)
    assert (noise != 0).all() and np.abs(noise).max() < 0.6 and (noise[0] != noise[1]).all()
    assert not np.array_equal(moved.observation["states"] - first, noise)  # new in each step
    _, spec = env_with(chain)
    assert spec.render_settings["state_noise"] == 0.1  # so evaluations are kept apart


@dataclass
class Cheat(EnvWrapping):
    pass


class Winning(EnvWrapper):
    def __init__(self, env, settings):
        super().__init__(env, env.spec)

    def chunk_step(self, actions):
        result = super().chunk_step(actions)
        result.success[:] = True
        return result


def test_a_wrapper_that_changes_success_is_refused(refused, monkeypatch):
    here = f"{__name__}:"
    spec = ComponentSpec("wrapper", "cheat", f"{here}Winning", config=f"{here}Cheat")
    monkeypatch.setattr(wrappers, "_wrapper", lambda entry, base: (spec, Cheat()))
    with refused(PluginError, "cheat"):
        rolled("cheat", action=0.0)


@pytest.mark.parametrize(
    ("entry", "error_class", "named"),
    [
        ("nose", PluginError, "nose"),
        ("{action_cost: {cof: 1}}", ConfigError, "cof"),
        ("{action_cost: {coef: much}}", ConfigError, "'much'"),
        ("{action_cost: {coef: -1}}", ConfigError, "coef must be at least 0, got -1"),
        ("{a: 1, b: 2}", ConfigError, "{NAME: {key: value}}"),
    ],
)
def test_an_invalid_chain_is_refused(refused, entry, error_class, named):
    config = compose(*TOY, f"env.train.wrappers=[{entry}]")
    with refused(error_class, named, text=False):  # OmegaConf words some of them
        env_spec(load_plugins(), "env.train", config.env.train)


def test_a_wrapper_of_envs_does_not_wrap_an_algorithm(refused):
    config = compose(*TOY, "algorithm=grpo", "algorithm.wrappers=[state_noise]")
    with refused(ConfigError, "state_noise", "env.train.wrappers"):
        algorithm_needs(config, load_plugins())


@dataclass
class NearReference(AlgorithmWrapping):
    pass


def near_reference_needs(needs, settings):
    return replace(needs, reference_logprobs=True)


def test_a_wrapper_adds_a_need_to_an_algorithm(monkeypatch):
    here = f"{__name__}:"
    spec = ComponentSpec(
        "wrapper", "near", "", config=f"{here}NearReference", spec=f"{here}near_reference_needs"
    )
    monkeypatch.setattr(wrappers, "_wrapper", lambda entry, base: (spec, NearReference()))
    config = compose(*TOY, "algorithm=grpo", "algorithm.wrappers=[near]")
    assert algorithm_needs(config, load_plugins()).reference_logprobs


def test_trainable_parameters_are_chosen_by_name(refused):
    policy, _ = build_policy(compose(*TOY, "actor.trainable=[*bias]"))
    names = [name for name, weight in policy.named_parameters() if weight.requires_grad]
    assert names and all(name.endswith("bias") for name in names)
    grouped = [weight for group in policy.parameter_groups().values() for weight in group]
    assert len(grouped) == len(names)
    with refused(ConfigError, "wings", text=False):  # lists the parameters
        train_only(policy, ["wings.*"])


def test_measurements_of_an_env_are_kept_for_each_episode(tmp_path):
    """Means over those that have it: (1 + 3) / 2 and 5."""
    outcomes = [
        EpisodeOutcome(Episode(0, 0), True, 1.0, 3, infos={"gap": 1.0, "hits": 5.0}),
        EpisodeOutcome(Episode(0, 1), False, 0.0, 3, infos={"gap": 3.0}),
        EpisodeOutcome(Episode(0, 2), False, 0.0, 3),
    ]
    metrics = env_metrics(outcomes, "eval")
    assert (metrics["eval/info/gap"], metrics["eval/info/hits"]) == (2.0, 5.0)
    rows = from_outcomes(outcomes, ["reach"], "deterministic")
    write_results(tmp_path / "rows.parquet", rows)
    assert read_results(tmp_path / "rows.parquet") == rows
