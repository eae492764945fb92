"""Starts and tasks that a training run plays besides those of `env.eval`."""

from __future__ import annotations

import pytest
from internals import assemble
from rlcore_testing.toy_policy import ToyPolicy
from rlcore_testing.toy_settings import ToyEnvConfig, ToyModelConfig, env_spec

from rlcore.api import save_policy
from rlcore.checks import run
from rlcore.checks.facts import gather_facts
from rlcore.checks.further_sides import FORGETTING, further_sides, plateau_starts
from rlcore.checks.run import check
from rlcore.config.compose import compose
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import PolicySpec
from rlcore.plugins.registry import load_plugins

TOY = ("env=toy", "model=toy", "algorithm=rft", "algorithm.demonstrations=0")
TWO = "env.*.tasks=[reach-left,reach-up]"


def sides(*words: str) -> dict[str, list[str] | None]:
    found = further_sides(compose([*TOY, *words]), load_plugins())
    return {name: config.env.eval.tasks for name, config in found.items()}


def test_from_random_weights_there_is_nothing_to_forget(tmp_path):
    assert sides(TWO) == {}
    assert sides(TWO, "env.forgetting.tasks=[reach-right]") == {"forgetting": ["reach-right"]}
    begun = f"actor.model.model_path={tmp_path}"
    assert sides(TWO, begun) == {"forgetting": ["reach-right", "reach-down"]}
    assert sides(TWO, begun, "env.forgetting.tasks=[]") == {}
    assert sides(begun) == {}  # all tasks are trained on
    assert sides(TWO, begun, "runner.only_eval=true") == {}


def test_default_tasks_of_forgetting_play_as_many_starts_as_there_are(tmp_path, refused):
    """The toy env has 1000 held-out starts."""
    words = [*TOY, TWO, f"actor.model.model_path={tmp_path}", "env.forgetting.trials_per_task=1001"]
    (side,) = further_sides(compose(words), load_plugins()).values()
    assert side.env.eval.trials_per_task == 1000
    with refused(ConfigError, "trials_per_task", "at most 1000"):
        further_sides(compose([*words, "env.forgetting.tasks=[reach-right]"]), load_plugins())


def test_tasks_that_a_policy_cannot_take_are_left_out_unless_they_are_named(
    tmp_path, monkeypatch, refused
):
    """A policy may refuse an env, such as one whose instructions are too long for its prompt."""

    def gather(config, registry, plan, others):
        if FORGETTING in others:
            raise ConfigError("the prompt is too short")
        return gather_facts(config, registry, plan, others)

    monkeypatch.setattr(run, "gather_facts", gather)
    policy = ToyPolicy(
        ToyModelConfig(model_type="toy", num_action_chunks=2), env_spec(ToyEnvConfig())
    )
    save_policy(policy, env_spec(ToyEnvConfig()), tmp_path)
    words = [*TOY, TWO, "env.train.total_num_envs=8", f"actor.model.model_path={tmp_path}"]
    with pytest.warns(ConfigWarning, match="forgetting is not measured: the prompt is too short"):
        assembly = assemble(compose(words))
    assert FORGETTING not in assembly.further_configs
    assert FORGETTING not in assembly.active_sides
    with refused(ConfigError, "the prompt is too short"):
        assemble(compose([*words, "env.forgetting.tasks=[reach-right]"]))


def test_validation_starts_are_played_on_the_tasks_of_the_evaluation():
    config = compose([*TOY, TWO, "env.validation.trials_per_task=3"])
    (side,) = further_sides(config, load_plugins()).values()
    settings = side.env.eval
    assert (settings.split, settings.trials_per_task) == ("validation", 3)
    assert settings.tasks == ["reach-left", "reach-up"]


CHOOSES = ("env.validation.trials_per_task=3", "runner.val_check_interval=1")


@pytest.mark.parametrize(
    ("words", "passes"),
    [
        (["runner.keep_best=true"], 2),
        ([], 1),  # a curve, and nothing is chosen by it
        (["runner.keep_best=true", "env.eval.rollout_epoch=3"], 2),
    ],
)
def test_starts_that_choose_are_played_twice(words, passes):
    config = compose([*TOY, TWO, *CHOOSES, *words])
    (side,) = further_sides(config, load_plugins()).values()
    assert side.env.eval.rollout_epoch == passes


@pytest.mark.parametrize(
    ("word", "noise", "passes"),
    [
        ("rollout.eval_deterministic=true", False, 1),  # both would be the same episodes
        ("rollout.eval_deterministic=true", True, 2),
        ("rollout.eval_deterministic=false", False, 2),
    ],
)
def test_a_policy_that_draws_nothing_plays_once(word, noise, passes):
    config = compose([*TOY, TWO, *CHOOSES, "runner.keep_best=true", word])
    policy = PolicySpec("some", 0, 0, 0, 1, 1, starts_from_noise=noise)
    (side,) = further_sides(config, load_plugins(), policy).values()
    assert side.env.eval.rollout_epoch == passes


@pytest.mark.parametrize(
    ("words", "passes"),
    [
        (["algorithm.edits=0", "algorithm.samples=1"], 1),
        (["algorithm.edits=2", "algorithm.samples=1"], 2),  # their noise is drawn
        (["algorithm.edits=0", "algorithm.samples=4"], 2),  # all but the first explore
    ],
)
def test_an_algorithm_that_draws_while_acting_plays_twice(words, passes):
    settings = ["env=toy", "model=toy", "algorithm=expo", TWO, *CHOOSES, *words]
    config = compose([*settings, "runner.keep_best=true", "rollout.eval_deterministic=true"])
    policy = PolicySpec("some", 0, 0, 0, 1, 1)
    (side,) = further_sides(config, load_plugins(), policy).values()
    assert side.env.eval.rollout_epoch == passes


@pytest.mark.parametrize(
    ("available", "noise", "played"),
    [
        (67, False, (67, 1)),  # 200 over three tasks
        (66, False, None),  # passes would be equal
        (66, True, (66, 2)),
        (5, True, (5, 14)),  # as LIBERO
        (4, True, None),  # 17 passes
        (0, True, None),
    ],
)
def test_few_validation_starts_are_played_in_several_passes(available, noise, played):
    config = compose([*TOY, "sft.enabled=true", "sft.until=plateau"])
    policy = PolicySpec("some", 0, 0, 0, 1, 1, starts_from_noise=noise)
    assert plateau_starts(config, 3, available, policy) == played


def test_configured_validation_starts_are_no_fewer_in_several_passes():
    config = compose([*TOY, "sft.enabled=true", "env.validation.trials_per_task=70"])
    assert plateau_starts(config, 3, 70, None) == (70, 1)
    assert plateau_starts(config, 3, 69, None) is None


@pytest.mark.parametrize(
    ("words", "trials"),
    [
        ([], 100),  # 200 over two tasks
        (["env.eval.tasks=[reach-left]"], 200),
        (["env.*.tasks=[reach-left,reach-up,reach-down]"], 67),
        (["env.validation.trials_per_task=150"], 150),
    ],
)
def test_a_plateau_is_played_on_200_starts_without_exploration(words, trials):
    asked = ["sft.enabled=true", "sft.until=plateau", "rollout.eval_deterministic=false"]
    config = compose([*TOY, TWO, *asked, *words])
    side = further_sides(config, load_plugins())["plateau"]
    settings = side.env.eval
    assert (settings.split, settings.trials_per_task) == ("validation", trials)
    assert side.rollout.eval_deterministic and settings.rollout_epoch == 1
    for word in ("sft.enabled=false", "sft.until=max_steps", "runner.only_eval=true"):
        without = further_sides(compose([*TOY, TWO, *asked, *words, word]), load_plugins())
        assert "plateau" not in without


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("env.forgetting.tasks=[reach-up]", ("env.forgetting.tasks", "got reach-up")),
        ("env.forgetting.tasks=[reach-far]", ("'reach-far'",)),
        (
            "env.validation.trials_per_task=1001",
            ("env.validation.trials_per_task", "at most 1000", "got 1001"),
        ),
    ],
)
def test_a_side_that_can_not_be_played_is_refused(refused, word, named):
    with refused(ConfigError, *named):
        check(compose([*TOY, TWO, word]))
