"""Runs that can't play episodes while the actor learns are refused, with the key to set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rlcore_policy_gradient.settings import ImitationConfig, OnPolicyNeeds, PolicyGradientConfig

from rlcore.contracts.specs import AlgorithmNeeds, ReplayNeeds

ASYNC = "runner.loop=async"
APART = "cluster.component_placement={env: 0-1, rollout: 2, actor: 3}"
ENVS_BESIDE = "cluster.component_placement={env: 2-3, rollout: 2, actor: 3}"
SHARED = "cluster.component_placement={env: 0-1, rollout: 2, actor: 2-3}"


def with_replay(facts):
    """The facts of a run whose algorithm has a replay."""
    return replace(facts, needs=AlgorithmNeeds(replay=ReplayNeeds(2**20)))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([], ("cluster.component_placement", "runner.loop=async", "rollout: 1, actor: 0")),
        ([APART], ("runner.loop", "algorithm.name=plain", "max_staleness=0")),
        (
            [ENVS_BESIDE, "env.train.enable_offload=true"],
            ("env.train.enable_offload", "runner.loop=async"),
        ),
        ([APART, "runner.max_staleness=2"], ("runner.max_staleness", "[0, 1]", "2")),
        ([APART, "runner.max_staleness=-1"], ("runner.max_staleness", "[0, 1]", "-1")),
    ],
)
def test_a_run_that_can_not_overlap_is_refused(facts, problems, overrides, words):
    found = facts(ASYNC, *overrides)
    if "algorithm.name=plain" not in words:
        found = with_replay(found)
    (problem,) = problems(found)
    assert all(word in problem for word in words), problem


@pytest.mark.parametrize("role", ["rollout", "actor"])
def test_a_role_on_a_shared_accelerator_can_not_be_offloaded(facts, problems, role):
    found = with_replay(facts(ASYNC, SHARED))
    plan = replace(found.placement, offloads=(role,))
    (problem,) = problems(replace(found, placement=plan))
    assert f"{role}.enable_offload" in problem and "runner.loop=async" in problem


@pytest.mark.parametrize(
    "overrides",
    [
        [APART],
        [SHARED],
        ["runner.max_staleness=0"],  # fused, as in the synchronous loop
        ["runner.loop=sync"],
    ],
)
def test_a_run_that_can_overlap_passes(facts, problems, overrides):
    assert problems(with_replay(facts(ASYNC, *overrides))) == []


@pytest.mark.parametrize("coefficient", [0.0, 0.5])
def test_an_algorithm_that_could_correct_for_it_names_its_key(facts, problems, coefficient):
    """A replay to imitate from makes the policy gradient no less on-policy."""
    imitation = ImitationConfig(coefficient=coefficient, demonstrations=0.0)
    needs = OnPolicyNeeds.of(PolicyGradientConfig(imitation=imitation))
    (said,) = problems(replace(facts(ASYNC, APART), needs=needs))
    assert "runner.loop" in said and "algorithm.behave_weight_threshold" in said
    corrected = OnPolicyNeeds.of(PolicyGradientConfig(behave_weight_threshold=2.0))
    assert problems(replace(facts(ASYNC, APART), needs=corrected)) == []


@pytest.mark.parametrize("setting", ["runner.max_staleness=0", "runner.only_eval=true"])
def test_a_run_that_does_not_overlap_needs_no_replay(facts, problems, setting):
    assert problems(facts(ASYNC, setting)) == []
