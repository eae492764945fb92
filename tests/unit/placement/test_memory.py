"""What accelerators hold in turns, by hand. A process takes 0.5 GiB of each that it is on for its
context, and as much where it talks to others over NCCL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.checks.placement_table import render
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.specs import Activations, NetworkNeeds, PolicySpec
from rlcore.placement import Inventory, Node, make_plan
from rlcore.placement.memory import (
    LEARNING,
    Batch,
    MemoryNeed,
    driver_memory,
    fits,
    fitting_micro_batch,
    main_memory,
    memory_on_rank,
    memory_per_process,
)
from rlcore.placement.propose import roles_to_offload

GIB = 2**30
BOTH = ("rollout", "actor")
APART = {
    "env": MemoryNeed(),
    "rollout": MemoryNeed(4 * GIB, acting=1 * GIB, acts=True),
    "actor": MemoryNeed(4 * GIB, state=2 * GIB, learns=True),
}
FUSED = {
    "env": MemoryNeed(),
    "rollout+actor": MemoryNeed(4, state=3, acting=2, acts=True, learns=True),
}

COUNTS = {"parameters": 1000, "trainable_parameters": 100, "gathered_parameters": 300}


def planned(mapping, *, offloads=(), gpus=4, divides=1):
    cluster = ClusterConfig(component_placement=mapping)
    inventory = Inventory((Node(cpus=8, gpus=gpus, gpu_memory=20 * GIB),))
    return make_plan(cluster, inventory, shard_over=divides, offloads=offloads)


@pytest.mark.parametrize(
    ("offloads", "gib"),
    # 5 and 6 side by side; a role that offloads holds nothing in the other's turn
    [((), 11), (("rollout",), 11), (("actor",), 11), (BOTH, 6)],
)
def test_two_processes_on_one_accelerator(offloads, gib):
    plan = planned({"env,rollout,actor": "all"}, offloads=offloads, divides=0)
    # and contexts of env, rollout and actor, and the group of the actors
    assert memory_on_rank(plan, 0, APART) == (gib + 3 * 0.5 + 0.5) * GIB
    # offloaded memory waits on the host: weights of 4, and of 4 + 2, from each of 4 accelerators
    waits = {(): 0, ("rollout",): 16, ("actor",): 24, BOTH: 40}[offloads]
    assert main_memory(plan, 0, APART) == waits * GIB


def test_only_roles_that_share_an_accelerator_offload():
    plan = planned({"env": 0, "rollout": 1, "actor": "2-3"}, offloads=BOTH)
    assert [memory_on_rank(plan, rank, APART) / GIB for rank in range(4)] == [0.5, 5.5, 7, 7]
    assert not main_memory(plan, 0, APART) and roles_to_offload(plan, APART) == ()
    hybrid = planned({"env": "0-1", "rollout": "2-3", "actor": "all"}, offloads=BOTH)
    # the actor offloads to an env as well
    assert all(hybrid.is_offloaded("actor", process) for process in hybrid.processes("actor"))
    assert [memory_on_rank(hybrid, rank, APART) / GIB for rank in range(4)] == [7.5] * 4
    assert main_memory(hybrid, 0, APART) == (4 * 6 + 2 * 4) * GIB


def test_a_fused_process_keeps_its_weights():
    plan = planned({"env,rollout,actor": "all"}, offloads=("actor",))
    driver = 3 * GIB // 2  # two contexts, and a group of four actors
    # acting 4 + 2, learning 4 + 3; without offload the state stays while it acts
    assert memory_on_rank(plan, 0, FUSED) - driver == 7
    assert memory_on_rank(replace(plan, offloads=()), 0, FUSED) - driver == 9
    assert main_memory(plan, 0, FUSED) == 4 * 3
    assert memory_on_rank(replace(plan, offloads=("rollout",)), 0, FUSED) - driver == 9
    assert roles_to_offload(plan, FUSED) == ("actor",)


def test_processes_on_cores_do_not_offload():
    cluster = ClusterConfig(component_placement={"env": 0, "rollout": 1, "actor": "0-1"})
    plan = make_plan(cluster, Inventory((Node(cpus=2),)), offloads=BOTH)
    # on the first the actor, which spreads over both: all of it is main memory, once
    assert memory_on_rank(plan, 1, APART) == 11 * GIB
    assert main_memory(plan, 0, APART) == (5 + 2 * 6) * GIB


def test_the_table_gives_the_peak_with_and_without_offload():
    spec = PolicySpec("arm", 1, 4, 4, 5, 5, parameters=2**30, trainable_parameters=2**29)
    plan = planned({"env,rollout,actor": "all"}, divides=0)

    def line_with(words, plan):
        (line,) = [line for line in render(plan, spec, APART).splitlines() if words in line]
        return line

    advice = line_with("rollout.enable_offload=true actor.enable_offload=true", plan)
    assert "8.00 GiB" in advice
    offloading = replace(plan, offloads=BOTH)
    peaks = line_with("offload:", offloading)
    assert "8.00 GiB" in peaks and "13.00 GiB" in peaks
    assert "8.00 GiB" in line_with("of 20.00 GiB", offloading)
    node = replace(*plan.inventory.nodes, memory=30 * GIB)
    small = replace(offloading, inventory=Inventory((node,)))
    # nine tenths of the main memory may be filled
    main = line_with("TOO MUCH", small)
    assert all(figure in main for figure in ("40.00 GiB", "30.00 GiB", "27.00 GiB"))


def test_gathered_parameters_are_not_offloaded():
    """1000 parameters in fp32, 100 trained, two processes; blocks of 300 at most."""
    spec = PolicySpec("arm", 1, 4, 4, 5, 5, **COUNTS)
    again = memory_per_process("actor", spec, "fp32", shares=2)
    assert (again.weights, again.state, again.gathered) == (2000, 600, 1200)
    # and a step for all of 50 tensors of 4 bytes at once
    assert again.peak == 4000 and again.offloaded == 2600
    assert again.by_turn(offloads=True) == (0, 4000)
    # kept until the backward, all blocks are whole at once
    kept = memory_per_process("actor", spec, "fp32", shares=2, reshards=False)
    assert kept.gathered == 4000


SPEC = PolicySpec(
    *("arm", 1, 4, 4, 5, 5),
    **COUNTS,
    cache_size=3,
    activations=Activations(50, 20, 7),
    sample_bytes=11,
    library_bytes=13,
)
BATCH = Batch(rows=2, samples=8, sft_samples=9, stored=6)


def need(role, **more):
    return memory_per_process(role, SPEC, "fp32", batch=BATCH, **more)


def test_memory_of_forwards_and_steps():
    # 2 rows of 3 cached numbers and 7 bytes
    rollout = need("rollout")
    actor = need("actor")
    both = need("rollout+actor")
    assert (rollout.acting, rollout.learning) == (2 * (3 * 4 + 7), 0)
    # supervised training makes no micro-batches: 9 samples of 50; 400 for a step
    assert (actor.learning, need("actor", recomputes=True).learning) == (450, 400)
    assert need("actor", recomputes=True, on_cores=True).learning == 9 * 20
    assert actor.peak == 4000 + 1200 + 450 and both.peak == actor.peak
    assert rollout.peak == 4038
    # 6 decisions of 11 bytes, three times while they are collected, twice where they arrive; freed,
    # all of that stays with the process
    assert rollout.host - actor.host == 2 * 6 * 11 - LEARNING
    assert both.host == rollout.host + LEARNING
    bare = memory_per_process("actor", replace(SPEC, library_bytes=0), "fp32", batch=BATCH)
    assert actor.host - bare.host == 13


@pytest.mark.parametrize(
    ("gib", "recomputes", "kept"),
    # a GiB of activations of each of 9 samples, of which 256 MiB stay after the last one is freed
    [(1, False, 256 * 2**20), (2**-30, False, 9 * 1 + 2 * 6 * 11), (1, True, 0)],
)
def test_freed_memory_that_a_process_on_cores_keeps(gib, recomputes, kept):
    size = int(gib * GIB)
    spec = replace(SPEC, activations=Activations(size, size, size))
    plain = replace(spec, activations=Activations(), sample_bytes=0)
    more = {"batch": BATCH, "on_cores": True, "recomputes": recomputes}
    need = memory_per_process("actor", spec, "fp32", **more)
    bare = memory_per_process("actor", plain, "fp32", **more)
    assert need.host - bare.host == kept + 2 * 6 * 11


def test_demonstrations_are_held_twice_while_they_are_concatenated():
    """A frame has inputs of 11 bytes, 5 actions of 4 entries of 4 bytes and a mask of 5, a weight
    and two numbers of 8: 11 + 80 + 5 + 24 = 120. Rollout processes hold none."""
    taught = Batch(demonstrations=1000)
    for role, held in (("actor", 2 * 120_000), ("rollout+actor", 2 * 120_000), ("rollout", 0)):
        bare = memory_per_process(role, SPEC, "fp32", batch=Batch())
        assert memory_per_process(role, SPEC, "fp32", batch=taught).host - bare.host == held


def test_sharded_parameters_offload_to_main_memory():
    """Half of 4000 + 1200 bytes lies there, and 300 parameters are gathered where it computes."""
    plain = need("actor", shares=2)
    offloads = need("actor", shares=2, offloads=True)
    assert plain.peak == 2600 + 1200 + 450
    assert offloads.peak == 1200 + 450 and offloads.host - plain.host == 2600
    assert not offloads.offloaded
    assert need("actor", offloads=True) == need("actor")  # nothing is divided


@pytest.mark.parametrize(
    ("gib", "samples"),
    # 7.5 beside the activations, of 2 a sample: 7 samples are 21.5, 4 are 15.5, 2 are 11.5, 1 is
    # 9.5; nine tenths may be filled: 21.6, 20.7, 16.2, 15.3, 11.7, 9.9, 9
    [(24, 7), (23, 4), (18, 4), (17, 2), (13, 2), (11, 1), (10, None)],
)
def test_micro_batches_shrink_to_the_memory(gib, samples):
    memory = {
        "env": MemoryNeed(),
        "rollout+actor": MemoryNeed(
            4 * GIB, state=2 * GIB, sample=2 * GIB, samples=7, acts=True, learns=True
        ),
    }
    plan = planned({"env,rollout,actor": "all"})
    node = Node(cpus=8, gpus=4, gpu_memory=gib * GIB)
    plan = replace(plan, inventory=Inventory((node,)))
    assert fitting_micro_batch(plan, memory) == samples
    table = render(plan, SPEC, memory)
    assert ("TOO MUCH" in table) == (samples is None)
    cuts = [line for line in table.splitlines() if "micro-batches" in line]
    assert len(cuts) == (samples not in (7, None))
    for line in cuts:
        assert {"7", "21.50", str(samples)} <= set(line.split())


@pytest.mark.parametrize(
    ("nodes", "mapping", "talking"),
    [
        (1, {"env": 0, "rollout": 0, "actor": 1}, set()),
        (1, {"env": 0, "rollout": "0-1", "actor": "0-1"}, {"rollout+actor"}),
        (1, {"env": 0, "rollout": "0", "actor": "0-1"}, {"actor"}),
        (2, {"env": 0, "rollout": "0", "actor": "2"}, {"rollout", "actor"}),
    ],
)
def test_a_process_group_takes_memory_where_a_role_communicates(nodes, mapping, talking):
    cluster = ClusterConfig(component_placement=mapping, num_nodes=nodes)
    plan = make_plan(cluster, Inventory.uniform(nodes, Node(cpus=2, gpus=2)))
    for role, processes in plan.roles():
        for process in processes:
            assert driver_memory(plan, role, process) == (GIB if role in talking else GIB // 2)


def test_a_tenth_of_the_memory_stays_free():
    assert fits(9, 10) and not fits(9.1, 10) and fits(10**12, 0)


def test_networks_of_an_algorithm_are_counted_where_it_learns():
    """1000 parameters with weights, gradients and two moments, 16 bytes each, and 100 with a lagged
    copy besides, 20; a replay lies in main memory."""
    spec = PolicySpec("policy", 0, 0, 1, 1, 1, parameters=10)
    own = (NetworkNeeds("one", 1e-3, 1000), NetworkNeeds("two", 1e-3, 100, polyak=0.05))
    for role, state, replay in (("actor", 18_000, 7), ("rollout", 0, 0)):
        bare = memory_per_process(role, spec, "fp32", batch=Batch())
        need = memory_per_process(role, spec, "fp32", networks=own, batch=Batch(replay=7))
        assert (need.state - bare.state, need.host - bare.host) == (state, replay)


def test_a_copy_of_the_policys_encoder_counts_as_the_policy_in_each_policy_process():
    spec = PolicySpec("policy", 0, 0, 1, 1, 1, parameters=10)
    own = (NetworkNeeds("eyes", 0.0, acts_with="online", encodes=True),)
    for role in ("actor", "rollout"):
        bare = memory_per_process(role, spec, "bf16", batch=Batch())
        need = memory_per_process(role, spec, "bf16", networks=own, batch=Batch())
        assert (need.weights - bare.weights, need.state - bare.state) == (20, 0)
