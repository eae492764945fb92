"""A run has the tasks it asks for, also of an env whose spec names all it has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rlcore_testing import toy_settings
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.checks.facts import gather_facts
from rlcore.checks.run import check
from rlcore.config.compose import compose
from rlcore.config.tasks import checked_spec, narrowed
from rlcore.contracts.errors import ConfigError, PluginError
from rlcore.contracts.specs import ActionChannel, CameraSpec, PolicySpec

TOY = ["env=toy", "model=toy", "algorithm=plain"]
ALL = env_spec(ToyEnvConfig())


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy env's spec function takes no notice of `tasks`."""
    monkeypatch.setattr(
        toy_settings, "env_spec", lambda config: env_spec(replace(config, tasks=None))
    )


def test_a_spec_is_narrowed_by_name():
    spec = narrowed(ALL, ["reach-down", "reach-left"], "env.train")
    assert spec.tasks == ("reach-down", "reach-left")
    assert spec.instructions == ("reach the down side", "reach the left side")
    assert spec.task_groups == {"horizontal": ("reach-left",), "vertical": ("reach-down",)}
    assert narrowed(ALL, ["reach-left"], "env.train").task_groups == {"horizontal": ("reach-left",)}
    assert narrowed(ALL, None, "env.train") is ALL


@pytest.mark.parametrize("tasks", ["[reach-up,reach-left]", "[reach-left,reach-up]"])
def test_core_narrows_as_an_env_that_does(registry, wide, tasks, monkeypatch):
    config = compose([*TOY, f"env.train.tasks={tasks}"], registry=registry)
    by_core = gather_facts(config, registry).envs["train"]
    monkeypatch.undo()
    assert by_core == env_spec(config.env.train)


def test_a_task_that_is_not_there_gets_one_error(registry, wide):
    config = compose([*TOY, "env.eval.tasks=[reach-up,reach-lefd]"], registry=registry)
    with pytest.raises(ConfigError) as raised:
        check(config, registry)
    assert raised.value.message == (
        "env.eval.tasks: toy has no task 'reach-lefd'. Did you mean 'reach-left'? Choose from: "
        "reach-down, reach-left, reach-right, reach-up."
    )


@pytest.mark.parametrize("tasks", ["[]", "[reach-up,reach-up]"])
def test_each_task_is_named_once(registry, wide, tasks):
    config = compose([*TOY, f"env.train.tasks={tasks}"], registry=registry)
    with pytest.raises(
        ConfigError, match=r"env.train.tasks must name at least one task, each once"
    ):
        check(config, registry)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (replace(ALL, instructions=("reach",)), "1 instructions, expected one for each of \\("),
        (
            {"tasks": ()},
            "env.train: the spec function of env 'toy' .* must give EnvSpec",
        ),
    ],
)
def test_a_spec_that_is_none_is_the_plugins_fault(registry, monkeypatch, found, message):
    monkeypatch.setattr(toy_settings, "env_spec", lambda config: found)
    with pytest.raises(PluginError, match=message):
        gather_facts(compose(TOY, registry=registry), registry)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "must give PolicySpec, got a NoneType"),
        (PolicySpec, "must give PolicySpec, got a type"),
        (PolicySpec("toy", None, 4, 2, 1, 1), r"\): num_images must be int, got None"),  # type: ignore[arg-type]
        (PolicySpec("toy", 1, 4, 2, 1, 1, sample_bytes=0.5), "sample_bytes must be int, got 0.5"),  # type: ignore[arg-type]
    ],
)
def test_the_spec_of_a_policy_is_one(registry, monkeypatch, found, message):
    monkeypatch.setattr(toy_settings, "policy_spec", lambda config, env_spec: found)
    with pytest.raises(
        PluginError, match=f"actor.model: the spec function of .* 'toy' .*{message}"
    ):
        gather_facts(compose(TOY, registry=registry), registry)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_episode_steps": 0}, "max_episode_steps is 0, expected an int of at least 1"),
        ({"max_episode_steps": "20"}, "max_episode_steps is '20'"),
        ({"tasks": ("a", "a"), "instructions": ("x", "y")}, "tasks is ('a', 'a'), expected"),
        ({"tasks": "ab", "instructions": ("x", "y")}, "tasks is 'ab', expected a tuple of str"),
        ({"train_trials": [1, 2]}, "train_trials is a list, expected a range"),
        ({"cameras": (CameraSpec("front", 0, 16),)}, "camera 'front' is 0 x 16"),
        ({"cameras": (CameraSpec("a", 4, 4),) * 2}, "cameras are named ['a', 'a']"),
        ({"actions": ()}, "actions is empty"),
        ({"actions": (ActionChannel("gripper", 1, float("nan"), 1.0),)}, "range [nan, 1.0]"),
        ({"actions": (ActionChannel("gripper", 1, 1.0, -1.0),)}, "range [1.0, -1.0]"),
    ],
)
def test_a_spec_that_no_run_can_be_planned_with_blames_the_env(changes: dict, said: str):
    assert checked_spec(ALL, "env.train") is ALL
    with pytest.raises(PluginError) as caught:
        checked_spec(replace(ALL, **changes), "env.train")
    assert "env.train: the spec of toy: " in caught.value.message
    assert said in caught.value.message
