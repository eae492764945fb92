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


def test_an_unknown_task_is_refused_by_the_choices(registry, refused, wide):
    config = compose([*TOY, "env.eval.tasks=[reach-up,reach-lefd]"], registry=registry)
    with refused(ConfigError, "env.eval.tasks", "'reach-lefd'", "'reach-left'", "reach-down"):
        check(config, registry)


@pytest.mark.parametrize("tasks", ["[]", "[reach-up,reach-up]"])
def test_each_task_is_named_once(registry, refused, wide, tasks):
    config = compose([*TOY, f"env.train.tasks={tasks}"], registry=registry)
    with refused(ConfigError, "env.train.tasks"):
        check(config, registry)


@pytest.mark.parametrize(
    ("function", "found", "named"),
    [
        ("env_spec", replace(ALL, instructions=("reach",)), "instructions"),
        ("env_spec", {"tasks": ()}, "EnvSpec"),
        ("policy_spec", None, "NoneType"),
        ("policy_spec", PolicySpec, "type"),
        ("policy_spec", PolicySpec("toy", None, 4, 2, 1, 1), "num_images"),  # type: ignore[arg-type]
        ("policy_spec", PolicySpec("toy", 1, 4, 2, 1, 1, sample_bytes=0.5), "sample_bytes"),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_spec_is_the_plugins_fault(
    registry, refused, monkeypatch, function, found, named
):
    monkeypatch.setattr(toy_settings, function, lambda *settings: found)
    section = "env.train" if function == "env_spec" else "actor.model"
    with refused(PluginError, section, named, text=False):  # it names the function's line
        gather_facts(compose(TOY, registry=registry), registry)


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"max_episode_steps": 0}, "max_episode_steps is 0"),
        ({"max_episode_steps": "20"}, "'20'"),
        ({"tasks": ("a", "a"), "instructions": ("x", "y")}, "('a', 'a')"),
        ({"tasks": "ab", "instructions": ("x", "y")}, "'ab'"),
        ({"train_trials": [1, 2]}, "train_trials"),
        ({"cameras": (CameraSpec("front", 0, 16),)}, "0 x 16"),
        ({"cameras": (CameraSpec("a", 4, 4),) * 2}, "['a', 'a']"),
        ({"actions": ()}, "actions"),
        ({"actions": (ActionChannel("gripper", 1, float("nan"), 1.0),)}, "[nan, 1.0]"),
        ({"actions": (ActionChannel("gripper", 1, 1.0, -1.0),)}, "[1.0, -1.0]"),
    ],
)
def test_a_spec_that_no_run_can_be_planned_with_blames_the_env(refused, changes, value):
    assert checked_spec(ALL, "env.train") is ALL
    with refused(PluginError, "env.train", "toy", value):
        checked_spec(replace(ALL, **changes), "env.train")
