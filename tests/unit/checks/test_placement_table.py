"""The table of a plan and the memory estimate, by hand."""

from __future__ import annotations

from dataclasses import replace

from rlcore.checks.placement_table import render
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.specs import PolicySpec, gathered_parameters
from rlcore.placement import Inventory, Node, make_plan
from rlcore.placement.memory import LEARNING, PROGRAM, Batch, memory_per_process
from rlcore.placement.routes import plan_weight_routes

GIB = 2**30


def policy(parameters, trained):
    return PolicySpec(
        name="arm",
        num_images=1,
        state_dim=4,
        action_dim=4,
        num_action_chunks=5,
        action_horizon=5,
        parameters=parameters,
        trainable_parameters=trained,
    )


def most(role, spec, precision="fp32", **more):
    return memory_per_process(role, spec, precision, **more).peak


def shown(plan, spec, precision="fp32", *, routes=(), **more):
    needs = {
        role: memory_per_process(
            role,
            spec,
            precision,
            shares=plan.shards,
            on_cores=all(map(plan.is_on_cores, processes)),
            **more,
        )
        for role, processes in plan.roles()
    }
    return render(plan, spec, needs, precision, routes=routes)


def test_the_estimate():
    spec = policy(1000, 100)
    assert most("env", spec) == 0
    assert most("rollout", spec) == 4000
    # weights 4000, gradients 400, two moments 800, and 400 while AdamW steps
    assert most("actor", spec) == 5600
    assert most("rollout+actor", spec) == 5600
    # on cores it steps one tensor after another
    assert most("actor", spec, on_cores=True) == 5200
    # weights 2000, gradients, moments and master copies in fp32: 400 + 800 + 400, and the step
    assert most("actor", spec, "bf16") == 4000


def test_parameters_that_actors_divide():
    spec = replace(policy(1000, 100), gathered_parameters=300)
    # of the 5600 bytes above a fourth, and 300 parameters gathered: 1400 + 1200
    assert most("actor", spec, shares=4) == 2600
    assert most("rollout", spec, shares=4) == 4000
    # gathered as a whole where nothing is said
    assert most("actor", policy(1000, 100), shares=4) == 5400
    plan = make_plan(
        ClusterConfig(component_placement={"env,rollout,actor": "all"}),
        Inventory.uniform(1, Node(cpus=4)),
        shard_over=0,
    )
    assert [role for role, _ in plan.roles()] == ["env", "rollout", "actor"]
    assert "4 actor processes" in shown(plan, spec)


def test_parameters_that_are_gathered_at_once():
    shapes = {"head": (5,), "a.layers.0.w": (2, 3), "a.layers.0.b": (2,), "a.layers.1.w": (7,)}
    # the head's 5, and of blocks of 8, 7 and 1 the two largest
    shapes["b.layers.0.w"] = (1,)
    assert gathered_parameters(shapes, r"(.*\.layers\.\d+)\.") == 20


def test_reference_weights_and_caches_of_acting_are_counted():
    spec = replace(policy(1000, 100), cache_size=30)
    # 8 rows of 30 numbers: 960 bytes, where there is a rollout; 400 of reference weights; it acts,
    # or it steps
    more = {"reference": True, "batch": Batch(rows=8)}
    assert most("rollout", spec, **more) == 4960
    assert most("actor", spec, **more) == 6000
    assert most("rollout+actor", spec, **more) == 5600 + 960
    assert most("env", spec, **more) == 0
    plan = make_plan(
        ClusterConfig(component_placement={"env,rollout,actor": "all:0"}),
        Inventory.uniform(1, Node(cpus=2)),
    )
    large = replace(policy(2**28, 2**28), cache_size=2**25)
    lines = shown(plan, large, **more).splitlines()
    # 1 GiB of weights, 1 of gradients, 2 of moments, 1 of reference, 1 of cache, 256 MiB of which
    # stay after it was freed; and the program's 0.5 GiB
    host = PROGRAM + LEARNING + GIB / 4
    assert cells(lines, "rollout+actor")[0][-1] == f"{6 + host / GIB:.2f} GiB"


def test_the_average_of_the_weights_is_counted():
    # of 100 trained parameters, in fp32: 400 bytes of the average and 400 of the trained weights
    bare = most("actor", policy(1000, 100))
    assert most("actor", policy(1000, 100), averaged=True) == bare + 800


def test_the_transport_of_weights_is_shown():
    plan = make_plan(
        ClusterConfig(component_placement={"env": "0", "rollout": "0-1", "actor": "2"}),
        Inventory.uniform(1, Node(cpus=4)),
    )
    routes = plan_weight_routes(plan.allocations("actor"), plan.allocations("rollout"))
    lines = shown(plan, policy(2**21, 2**20), routes=routes).splitlines()
    (route,) = [line for line in lines if "object store" in line]
    assert "4.00 MiB" in route  # 2**20 trained numbers of 4 bytes


def lines_of(mapping, node, spec, precision="fp32", nodes=1):
    cluster = ClusterConfig(component_placement=mapping, num_nodes=nodes)
    plan = make_plan(cluster, Inventory.uniform(nodes, node))
    return shown(plan, spec, precision).splitlines()


def cells(lines, component):
    """Cells of the rows of a component."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    return [row for row in rows if row[0] == component]


def test_fused_on_cores():
    # 2**28 parameters, all trained: 1 GiB of weights, 1 of gradients, 2 of moments; and the
    # program's 0.5 GiB
    lines = lines_of(
        {"env,rollout,actor": "all:0"}, Node(cpus=2, memory=8 * GIB), policy(2**28, 2**28)
    )
    assert cells(lines, "env") == [["env", "0", "0", "0-1", "1", "-"]]
    held = f"{4 + (PROGRAM + LEARNING) / GIB:.2f} GiB"
    assert cells(lines, "rollout+actor") == [["rollout+actor", "0", "0", "0-1", "1", held]]
    (node,) = [line for line in lines if line.startswith("node 0")]
    assert f"{held} of 8.00 GiB" in node


def test_separate_copies_and_a_gpu_that_is_too_small():
    node = Node(cpus=16, gpus=4, gpu_memory=3 * GIB)
    mapping = {"env": "0", "rollout": "1-2", "actor": "2-3"}
    lines = lines_of(mapping, node, policy(2**28, 2**27))
    assert cells(lines, "rollout") == [
        ["rollout", "0", "0", "1", "4", "1.50 GiB"],
        ["rollout", "1", "0", "2", "2", "1.50 GiB"],
    ]
    # 1 of weights, 0.5 of gradients, 1 of moments, 0.5 to step, 0.5 for the context and for NCCL;
    # with a rollout process too: 5.5
    assert [row[-1] for row in cells(lines, "actor")] == ["4.00 GiB", "4.00 GiB"]
    assert any("5.50 GiB of 3.00 GiB: TOO MUCH, 2.70 GiB" in line for line in lines)
    # main memory is shown beside it: four programs, two of which learn
    held = (4 * PROGRAM + 2 * LEARNING) / GIB
    assert any(f" {held:.2f} GiB" in line for line in lines if line.startswith("node 0"))


def test_weights_that_an_update_sends_are_shown():
    def sent(mapping):
        # 2**28 parameters in all, 2**20 of them trained: 2 MiB in bf16
        lines = lines_of(mapping, Node(cpus=4), policy(2**28, 2**20), "bf16")
        return [line for line in lines if "2.00 MiB of weights" in line]

    assert len(sent({"env": "0", "rollout": "1", "actor": "2"})) == 1
    assert not sent({"env": "0", "rollout": "1-2", "actor": "1-2"})


def test_a_policy_of_unknown_size_is_not_counted_as_one_without_weights():
    mapping = {"env,rollout,actor": "all"}

    def said(spec):
        return [line for line in lines_of(mapping, Node(cpus=4), spec) if line.startswith("arm: ")]

    unknown = "arm: its number of parameters is unknown, so the memory shown is without weights"
    assert said(policy(0, 0)) == [unknown]
    elsewhere = replace(policy(0, 0), evaluation_only="its weights are on a server")
    assert said(elsewhere) == ["arm: 0 parameters in fp32, 0 trained"]


def test_one_line_per_node_and_no_wider_than_a_terminal():
    lines = lines_of({"env,rollout,actor": "all"}, Node(cpus=8, gpus=8), policy(10, 10), nodes=2)
    assert sum(line.startswith("node ") for line in lines) == 2
    assert len(cells(lines, "rollout+actor")) == 16
    assert max(map(len, lines)) <= 100
