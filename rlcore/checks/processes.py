"""Check that the processes of a placement can work together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version

from rlcore.checks.facts import Facts
from rlcore.checks.subject import Subject

CHECKS = Subject()
# Sharding needs this version of torch: earlier ones gather parameters differently after a forward
# that returns a dataclass.
SHARDS_SINCE = (2, 13)


@CHECKS.add
def envs_divide_among_workers(facts: Facts) -> Iterator[str]:
    workers = facts.workers["env"]
    stages = facts.config.rollout.pipeline_stage_num
    for path, env, _ in facts.sides:
        if stages > 0 and env.total_num_envs % (workers * stages):
            yield (
                f"{path}.total_num_envs must be divisible by env workers x stages = {workers} x "
                f"{stages} = {workers * stages}, got {env.total_num_envs}"
            )


@CHECKS.add
def offloaded_envs_can_be_suspended(facts: Facts) -> Iterator[str]:
    for path, env, spec in facts.sides:
        if env.enable_offload and not spec.suspends:
            yield (
                f"{path}.enable_offload must be false: under these settings {spec.name} holds "
                "nothing on an accelerator, got true"
            )


def offload_has_no_effect(facts: Facts) -> Iterator[str]:
    """Yield a sentence for each role whose `enable_offload` has no effect, with the reason."""
    plan = facts.placement
    for name in plan.offloads:
        effect = f"{name}.enable_offload=true does nothing"
        if all(plan.is_on_cores(process) for process in plan.processes(name)):
            yield f"{effect}: its processes run on CPU cores, and all their memory is the host's"
        elif name == "rollout" and plan.fused:
            yield (
                f"{effect}: rollout and actor are one process over one set of weights; only "
                "the optimizer can leave while it acts (actor.enable_offload)"
            )
        elif not any(plan.is_offloaded(name, process) for process in plan.processes(name)):
            yield f"{effect}: nothing else is placed on its accelerators"


@CHECKS.add
def rollout_workers_have_rows(facts: Facts) -> Iterator[str]:
    """Check that there are enough envs for each rollout process to have at least one row.

    With more rollout processes than stages, several processes share the rows of a stage.
    """
    envs = facts.workers["env"]
    stages = facts.config.rollout.pipeline_stage_num
    if facts.policy is None or stages < 1:
        return
    least = envs * stages * facts.parts
    for path, env, _ in facts.sides:
        if env.total_num_envs < least:
            yield (
                f"{path}.total_num_envs must be at least {least}, so that each of the "
                f"{facts.workers['rollout']} rollout processes has rows of the {envs} env "
                f"processes' {envs * stages} stages to answer, got {env.total_num_envs}"
            )


@CHECKS.add
def actors_do_not_share_a_gpu(facts: Facts) -> Iterator[str]:
    """Check that each actor process has its own GPU.

    Actor processes sum gradients over NCCL, which refuses two ranks of a group on one GPU.
    """
    plan = facts.placement
    if plan.inventory.kind != "GPU" or facts.config.cluster.backend == "local":
        return
    ranks_by_gpu: dict[int, list[int]] = {}
    for process in plan.processes("actor"):
        if plan.is_on_cores(process):
            continue
        ranks_by_gpu.setdefault(process.resources[0], []).append(process.rank)
    for gpu, ranks in ranks_by_gpu.items():
        if facts.policy is not None and len(ranks) > 1:
            yield (
                "cluster.component_placement.actor must give each process a GPU of its own, got "
                f"GPU {gpu} for processes {', '.join(map(str, ranks))}"
            )


@CHECKS.add
def parameters_can_be_sharded(facts: Facts) -> Iterator[str]:
    config = facts.config.actor.fsdp_config
    actors = facts.workers["actor"]
    if facts.policy is None or facts.config.shard_over == 1:
        return
    key = "actor.fsdp_config"
    if not facts.policy.has_blocks and config.sharding_strategy == "full_shard":
        yield (
            f"{key}.sharding_strategy must be shard_grad_op or no_shard: {facts.policy.name} names "
            "no blocks that could be gathered one at a time, got full_shard"
        )
    if config.sharding_strategy == "hybrid_shard":
        nodes = [allocation.node for allocation in facts.placement.allocations("actor")]
        actors_by_node = Counter(nodes)
        if config.fsdp_size is None and len(set(actors_by_node.values())) > 1:
            counts = ", ".join(f"{count} on node {node}" for node, count in actors_by_node.items())
            yield f"{key}.fsdp_size must be set where nodes have unequal actor processes: {counts}"
        elif config.fsdp_size is None and [*actors_by_node.elements()] != nodes:
            yield (
                f"{key}.fsdp_size must be set where the actor processes of a node don't follow "
                f"each other: processes 0-{actors - 1} are on nodes {', '.join(map(str, nodes))}"
            )
        elif config.fsdp_size is not None and actors % config.fsdp_size:
            yield (
                f"{key}.fsdp_size must divide the number of actor processes, {actors}, got "
                f"{config.fsdp_size}"
            )
    is_sharded = facts.config.cluster.backend != "local" and actors > 1
    if is_sharded and tuple(map(int, version("torch").split(".")[:2])) < SHARDS_SINCE:
        yield (
            f"{key}.sharding_strategy must be no_shard with torch {version('torch')}, got "
            f"{config.sharding_strategy}: sharding needs torch "
            f"{'.'.join(map(str, SHARDS_SINCE))}"
        )
