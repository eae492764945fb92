"""What collecting and supervised training need is said before a run starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rlcore_demonstrations.checks import check_supervised

from rlcore.checks.facts import Facts, gather_facts
from rlcore.checks.run import survey
from rlcore.config.compose import compose
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.registry import load_plugins

TWO_ACTORS = "cluster.component_placement={env: 0, rollout: 0-1, actor: 0-1}"
WORDS = ("env=toy", "model=toy", "algorithm=ppo", TWO_ACTORS, "actor.global_batch_size=256")
LEARNING = "sft.enabled=true"
Made = Callable[..., Facts]


@pytest.fixture
def facts() -> Made:
    """`facts(*overrides)`: of the toy with two actor processes, on a machine that is described."""

    def make(*overrides: str) -> Facts:
        config = compose([*WORDS, *overrides])
        plan = make_plan(config.cluster, Inventory((Node(cpus=4),)))
        return gather_facts(config, load_plugins(), plan)

    return make


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], []),
        (["sft.val_fraction=0", "sft.patience=2"],
         ["sft.patience must be null with sft.val_fraction=0, which leaves no validations to "
          "count, got 2"]),
        (["collect.episodes_per_task=1"],
         ["collect.episodes_per_task must be at least 2 with sft.enabled (one of them is for "
          "validation; sft.val_fraction=0 takes none), got 1"]),
        (["sft.control=own_successes"],
         ["sft.control must be demonstrations or null with 2 actor processes, got own_successes"]),
        (["sft.control=own_successes", "cluster.backend=local"], []),
    ],
)  # fmt: skip
def test_settings(facts: Made, words: list[str], wanted: list[str]) -> None:
    assert [*check_supervised(facts(LEARNING, *words))] == wanted
    apart = [word for word in words if not word.startswith("sft.control")]
    assert [*check_supervised(facts(*apart), collects=True)] == []  # nothing is supervised


def test_a_teacher_and_a_loss(facts: Made) -> None:
    found = facts(LEARNING)
    train = replace(found.envs["train"], has_expert=False)
    untaught = replace(found, envs={**found.envs, "train": train})
    assert [*check_supervised(untaught)] == [
        "collect.path must name a data set: toy has no scripted expert, got null"
    ]
    assert found.policy is not None
    lossless = replace(found, policy=replace(found.policy, sft=None))
    assert [*check_supervised(lossless)] == [
        "sft.enabled must be false: toy has no supervised loss, got true"
    ]


def test_chunks_of_one_motion_are_as_long_as_the_policy_s(facts: Made) -> None:
    """The toy policy's chunks have 2 actions."""

    def said(*words: str) -> list[str]:
        found = facts(LEARNING, *words)
        train = replace(found.envs["train"], whole_chunks=True)
        return [*check_supervised(replace(found, envs={**found.envs, "train": train}))]

    assert said() == [
        "collect.stride must be actor.model.num_action_chunks = 2, as toy carries out a chunk as "
        "one motion, got 1"
    ]
    assert said("collect.stride=2") == []


def test_a_run_is_refused_by_them_and_its_evaluation_is_not() -> None:
    """The configuration of a run that was trained on a data set is evaluated without that."""
    wrong = (LEARNING, "sft.val_fraction=0", "sft.patience=2", "cluster.inventory=4cpu")
    for words, refused in (((), True), (("runner.only_eval=true",), False)):
        config = compose([*WORDS, *wrong, *words])
        _, errors = survey(config, load_plugins(), only_look=True)
        assert any("sft.patience must be null" in one.message for one in errors) == refused
