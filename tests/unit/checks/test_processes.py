"""Processes that can't work together are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.checks.facts import gather_facts
from rlcore.checks.processes import offload_has_no_effect
from rlcore.config.compose import compose
from rlcore.placement import Inventory, Node, make_plan


def placement(mapping: str) -> str:
    return f"cluster.component_placement={{{mapping}}}"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        # the one stage of the env process has a single row, for the rollout processes 0 and 1
        (
            [placement("env: 0, rollout: 1-2, actor: 1-2"), "env.train.total_num_envs=1"],
            ("env.train.total_num_envs", "at least 2", "2 rollout", "1 env", "got 1"),
        ),
        # 2 env workers x 2 stages = 4 parts
        (
            ["env.train.total_num_envs=6", "rollout.pipeline_stage_num=2"],
            ("env.train.total_num_envs", "2 x 2 = 4", "got 6"),
        ),
        # not equal to (260 % 4) % 2 = 0, which lets 4 x 3 pass
        (
            ["env.eval.total_num_envs=260", "rollout.pipeline_stage_num=3"],
            ("env.eval.total_num_envs", "2 x 3 = 6", "got 260"),
        ),
        (
            [placement("env: 0, rollout: 0, actor: '1,2:1-2'")],
            ("cluster.component_placement.actor", "GPU 2 for processes 1, 2"),
        ),
        # 2 stages shared evenly by 3 processes: in 3 parts each, so 6 parts
        (
            [placement("env: 0-1, rollout: 0-2, actor: 0"), "env.eval.total_num_envs=4"],
            ("env.eval.total_num_envs", "at least 6", "3 rollout"),
        ),
    ],
)
def test_processes_that_do_not_fit_are_refused(facts, reported, overrides, words):
    reported(facts(*overrides), *words)


TOY = ("env=toy", "model=toy", "algorithm=plain")


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("actors", "size", "named"),
    [
        ("0-3", "null", None),
        # ranks 0 and 2 are the first node's: with two in a row a copy would lie on both
        ("'0:0,1:2,2:1,3:3'", "null", "nodes 0, 1, 0, 1"),
        ("'0:0,1:2,2:1,3:3'", "4", None),
        ("0-2", "null", "fsdp_size"),  # two processes on a node, one on the other
        ("0-3", "3", "got 3"),
        ("0-3", "16", "got 16"),
    ],
)
def test_one_copy_of_the_parameters_on_each_node(registry, problems, snapshot, actors, size, named):
    words = [
        "cluster.num_nodes=2",
        placement(f"env: 0, rollout: 0, actor: {actors}"),
        f"actor.fsdp_config.fsdp_size={size}",
        "actor.fsdp_config.sharding_strategy=hybrid_shard",
    ]
    config = compose([*TOY, *words], registry=registry)
    inventory = Inventory.uniform(2, Node(cpus=8, gpus=2))
    plan = make_plan(config.cluster, inventory, registry, shard_over=config.shard_over)
    found = problems(gather_facts(config, registry, plan))
    about_size = [problem for problem in found if "fsdp_size" in problem]
    assert len(about_size) == (named is not None)
    assert named is None or named in about_size[0]
    assert about_size == snapshot


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("mapping", "transports"),
    [
        ("env: 0, rollout: 0, actor: 1", ["object_store"]),
        ("env: 0, rollout: 1, actor: 1", []),  # one process
        ("env: 0, rollout: 2, actor: 0-3", ["object_store"]),
        ("env: 0, rollout: 4, actor: 0-3", ["broadcast"]),
    ],
)
def test_the_placement_decides_the_transport_of_weights(registry, mapping, transports):
    """Two nodes of four GPUs."""
    nodes = ["cluster.num_nodes=2", placement(mapping)]
    for sync in ("auto", "object_store", "broadcast"):
        config = compose([*TOY, f"rollout.sync={sync}", *nodes], registry=registry)
        plan = make_plan(config.cluster, Inventory.uniform(2, Node(cpus=16, gpus=4)), registry)
        facts = gather_facts(config, registry, plan)
        expected = transports if sync == "auto" or not transports else [sync]
        assert [route.transport for route in facts.routes] == expected


def test_in_one_process_weights_take_no_route(facts):
    apart = placement("env: 0, rollout: 1, actor: 2")
    assert facts(apart).routes
    assert not facts(apart, "cluster.backend=local").routes


def test_a_policy_without_blocks_is_gathered_as_a_whole(facts, problems, reported):
    full = facts("actor.fsdp_config.sharding_strategy=full_shard")
    assert not [text for text in problems(full) if "sharding_strategy" in text]
    without_blocks = replace(full, policy=replace(full.policy, has_blocks=False))
    reported(without_blocks, "sharding_strategy", "shard_grad_op or no_shard", "got full_shard")
    grad_op = facts("actor.fsdp_config.sharding_strategy=shard_grad_op")
    without_blocks = replace(grad_op, policy=replace(grad_op.policy, has_blocks=False))
    assert not [text for text in problems(without_blocks) if "sharding_strategy" in text]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("mapping", "key", "effective"),
    [
        ("env: 0-1, rollout: 2, actor: 2", "rollout", False),  # one process with the actor
        ("env: 0-1, rollout: 2, actor: 3", "rollout", False),  # nothing else is on its GPU
        ("env: 0-1, rollout: 2, actor: 3", "actor", False),
        ("env: 0-1, rollout: 2-3, actor: 3", "rollout", True),
        ("env: 0-1, rollout: 2, actor: 1", "actor", True),  # it leaves to an env
        ("env: 0-1, rollout: 2, actor: 2", "actor", True),  # its optimizer leaves while it acts
    ],
)
def test_offload_without_effect_is_announced(facts, snapshot, mapping, key, effective):
    found = facts(placement(mapping), f"{key}.enable_offload=true")
    on_gpus = replace(found.placement, offloads=found.config.offloaded_roles)
    on_cores = make_plan(
        found.config.cluster,
        Inventory.uniform(1, Node(cpus=4)),
        offloads=found.config.offloaded_roles,
    )
    warnings = list(offload_has_no_effect(replace(found, placement=on_gpus)))
    assert len(warnings) == (not effective)
    assert warnings == snapshot
    warnings += offload_has_no_effect(replace(found, placement=on_cores))
    assert len(warnings) == 2 - effective
    assert all(text.startswith(f"{key}.enable_offload=true") for text in warnings)
