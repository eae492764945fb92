"""Processes that can't work together are refused, with the numbers in the sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.checks.facts import gather_facts
from rlcore.checks.processes import offload_has_no_effect
from rlcore.config.compose import compose
from rlcore.placement import Inventory, Node, make_plan


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        # the one stage of the env process has a single row, for the rollout processes 0 and 1
        (["cluster.component_placement={env: 0, rollout: 1-2, actor: 1-2}",
          "env.train.total_num_envs=1"],
         "env.train.total_num_envs must be at least 2, so that each of the 2 rollout processes has "
         "rows of the 1 env processes' 1 stages to answer, got 1"),
        # 2 env workers x 2 stages = 4 parts
        (["env.train.total_num_envs=6", "rollout.pipeline_stage_num=2"],
         "env.train.total_num_envs must be divisible by env workers x stages = 2 x 2 = 4, got 6"),
        # not equal to (260 % 4) % 2 = 0, which lets 4 x 3 pass
        (["env.eval.total_num_envs=260", "rollout.pipeline_stage_num=3"],
         "env.eval.total_num_envs must be divisible by env workers x stages = 2 x 3 = 6, got 260"),
        (["cluster.component_placement={env: 0, rollout: 0, actor: '1,2:1-2'}"],
         "cluster.component_placement.actor must give each process a GPU of its own, got GPU 2 for "
         "processes 1, 2"),
        # 2 stages shared evenly by 3 processes: in 3 parts each, so 6 parts
        (["cluster.component_placement={env: 0-1, rollout: 0-2, actor: 0}",
          "env.eval.total_num_envs=4"],
         "env.eval.total_num_envs must be at least 6, so that each of the 3 rollout processes"),
    ],
)  # fmt: skip
def test_processes_that_do_not_fit_are_refused(facts, problems, overrides, sentence):
    assert any(sentence in said for said in problems(facts(*overrides)))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("actors", "size", "sentence"),
    [
        ("0-3", "null", ""),
        # ranks 0 and 2 are the first node's: with two in a row a copy would lie on both
        ("'0:0,1:2,2:1,3:3'", "null",
         "fsdp_size must be set where the actor processes of a node don't follow each other: "
         "processes 0-3 are on nodes 0, 1, 0, 1"),
        ("'0:0,1:2,2:1,3:3'", "4", ""),
        ("0-2", "null", "fsdp_size must be set where nodes have unequal actor processes: 2 on no"),
        ("0-3", "3", "fsdp_size must divide the number of actor processes, 4, got 3"),
        ("0-3", "16", "fsdp_size must divide the number of actor processes, 4, got 16"),
    ],
)  # fmt: skip
def test_one_copy_of_the_parameters_on_each_node(registry, problems, actors, size, sentence):
    words = [
        "env=toy", "model=toy", "algorithm=plain", "cluster.num_nodes=2",
        f"cluster.component_placement={{env: 0, rollout: 0, actor: {actors}}}",
        f"actor.fsdp_config.fsdp_size={size}", "actor.fsdp_config.sharding_strategy=hybrid_shard",
    ]  # fmt: skip
    config = compose(words, registry=registry)
    inventory = Inventory.uniform(2, Node(cpus=8, gpus=2))
    plan = make_plan(config.cluster, inventory, registry, shard_over=config.shard_over)
    said = [each for each in problems(gather_facts(config, registry, plan)) if "fsdp" in each]
    assert len(said) == bool(sentence) and all(sentence in each for each in said)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("placement", "way"),
    [
        ("{env: 0, rollout: 0, actor: 1}", ["object_store"]),
        ("{env: 0, rollout: 1, actor: 1}", []),  # one process
        ("{env: 0, rollout: 2, actor: 0-3}", ["object_store"]),
        ("{env: 0, rollout: 4, actor: 0-3}", ["broadcast"]),
    ],
)
def test_weights_take_the_way_that_the_placement_allows(registry, problems, placement, way):
    """Two nodes of four GPUs."""
    nodes = ["cluster.num_nodes=2", f"cluster.component_placement={placement}"]
    for sync in ("auto", "object_store", "broadcast"):
        config = compose(
            ["env=toy", "model=toy", "algorithm=plain", f"rollout.sync={sync}", *nodes],
            registry=registry,
        )
        plan = make_plan(config.cluster, Inventory.uniform(2, Node(cpus=16, gpus=4)), registry)
        facts = gather_facts(config, registry, plan)
        expected = way if sync == "auto" or not way else [sync]
        assert [route.transport for route in facts.routes] == expected


def test_in_one_process_weights_take_no_way(facts):
    apart = "cluster.component_placement={env: 0, rollout: 1, actor: 2}"
    assert facts(apart).routes
    assert not facts(apart, "cluster.backend=local").routes


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("sharding_strategy=full_shard",
         "sharding_strategy must be shard_grad_op or no_shard: toy names no blocks that could be "
         "gathered one at a time, got full_shard"),
        ("sharding_strategy=shard_grad_op", ""),
    ],
)  # fmt: skip
def test_a_policy_without_blocks_is_gathered_as_a_whole(facts, problems, words, sentence):
    found = facts(*(f"actor.fsdp_config.{word}" for word in words.split()))
    known = replace(found, policy=replace(found.policy, has_blocks=False))
    said = [each for each in problems(known) if "fsdp" in each]
    assert len(said) == bool(sentence) and all(sentence in each for each in said)
    assert not [each for each in problems(found) if "fsdp" in each]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("mapping", "key", "reason"),
    [
        ("{env: 0-1, rollout: 2, actor: 2}", "rollout", "rollout and actor are one process"),
        ("{env: 0-1, rollout: 2, actor: 3}", "rollout", "nothing else is placed on its"),
        ("{env: 0-1, rollout: 2, actor: 3}", "actor", "nothing else is placed on its"),
        ("{env: 0-1, rollout: 2-3, actor: 3}", "rollout", None),
        ("{env: 0-1, rollout: 2, actor: 1}", "actor", None),  # it leaves to an env
        ("{env: 0-1, rollout: 2, actor: 2}", "actor", None),  # its optimizer leaves while it acts
    ],
)
def test_who_can_not_leave_is_told_so(facts, mapping, key, reason):
    asked = [f"cluster.component_placement={mapping}", f"{key}.enable_offload=true"]
    found = facts(*asked)
    placement = replace(found.placement, offloads=found.config.offloaded_roles)
    said = list(offload_has_no_effect(replace(found, placement=placement)))
    assert bool(said) == bool(reason)
    assert not reason or f"{key}.enable_offload=true does nothing: {reason}" in said[0]
    cores = make_plan(
        found.config.cluster,
        Inventory.uniform(1, Node(cpus=4)),
        offloads=found.config.offloaded_roles,
    )
    (said,) = offload_has_no_effect(replace(found, placement=cores))
    assert said.startswith(f"{key}.enable_offload=true does nothing")
