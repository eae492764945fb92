"""Show a plan as a table, with the memory of its processes and how full machines get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.table import Table

from rlcore.checks.facts import Facts
from rlcore.contracts.specs import PolicySpec
from rlcore.placement.grammar import Process
from rlcore.placement.inventory import Inventory
from rlcore.placement.memory import (
    BYTES,
    CONTEXT,
    FREE,
    NCCL,
    MemoryNeed,
    driver_memory,
    fits,
    fitting_micro_batch,
    format_bytes,
    main_memory,
    micro_batch_memory,
    most_loaded,
    usable_memory,
    with_fitting_micro_batches,
)
from rlcore.placement.plan import Plan
from rlcore.placement.propose import roles_to_offload
from rlcore.placement.routes import WeightRoute, describe_transports
from rlcore.utils.console import as_text
from rlcore.utils.text import format_ranges

WIDTH = 100
TOO_MUCH = "TOO MUCH"
"""Mark of a node whose memory is too small for its processes."""


def placement_table(facts: Facts) -> str:
    """Return text that shows which process runs where, with an estimate of its memory."""
    return render(
        facts.placement,
        facts.counted,
        facts.memory,
        facts.config.actor.model.precision,
        routes=facts.routes,
    )


def render(
    plan: Plan,
    spec: PolicySpec,
    memory: Mapping[str, MemoryNeed],
    precision: str = "fp32",
    *,
    routes: Sequence[WeightRoute] = (),
) -> str:
    """Return the plan as text: a row per process, then the estimated memory use of each node.

    Args:
        plan: placement plan.
        spec: spec of the policy.
        memory: memory that a process needs, by role.
        precision: `actor.model.precision`, "fp32" or "bf16".
        routes: routes by which weights get to separate rollout processes.
    """
    kind = plan.inventory.kind
    table = Table(title="placement", title_justify="left")
    for heading in ("component", "process", "node", kind, "cores"):
        table.add_column(heading, justify="left" if heading == "component" else "right")
    table.add_column("memory", justify="right")
    for role, processes in plan.roles():
        for process in processes:
            allocation = plan.allocation(process)
            table.add_row(
                role,
                str(process.rank),
                str(allocation.node),
                _where(plan, process),
                f"{allocation.cpus:.4g}",
                _process_memory(plan, role, process, memory[role]),
            )
        table.add_section()
    return as_text(table, *_summary(plan, spec, precision, memory, routes), width=WIDTH)


def _summary(
    plan: Plan,
    spec: PolicySpec,
    precision: str,
    memory: Mapping[str, MemoryNeed],
    routes: Sequence[WeightRoute],
) -> list[str]:
    """Return the lines below the table: weights, micro-batches, and memory of each node."""
    sent = format_bytes(spec.trainable_parameters * BYTES[precision])
    lines = [
        *(
            ["rollout and actor are one process over one set of weights"]
            if plan.fused
            else [
                "rollout and actor are processes of their own, each with its copy of the weights",
                f"an update sends about {sent} of weights to each rollout process"
                + (f", over {describe_transports(routes)}" if routes else ""),
            ]
        ),
        *([f"{plan.shards} actor processes shard the parameters"] if plan.shards > 1 else []),
        f"{spec.name}: {_size(spec, precision)}",
    ]
    samples, per_sample = micro_batch_memory(memory)
    if samples * per_sample:
        lines.append(
            f"an update takes {format_bytes(samples * per_sample)} of activations, "
            f"{format_bytes(per_sample)} for each of {samples} samples (actor.micro_batch_size)"
        )
    fitting = fitting_micro_batch(plan, memory) or samples
    for index, node in enumerate(plan.inventory.nodes):
        uses: list[str] = []
        kind = ""
        if plan.inventory.kind == "GPU" and (node.gpus or len(plan.inventory.nodes) == 1):
            need = most_loaded(plan, index, with_fitting_micro_batches(plan, memory))
            uses.append(_memory_use("the fullest GPU holds", need, node.gpu_memory))
            kind = " of main memory"
        need = main_memory(plan, index, memory)
        uses.append(_memory_use("its processes hold", need, node.memory, kind))
        label = f"node {index}" + (f" ({node.name})" if node.name else "")
        lines.append(f"{label}: {node.cpus} cores, {node.gpus} GPUs; {'; '.join(uses)}")
    if fitting < samples:
        lines.append(
            f"micro-batches of {samples} samples don't fit on a GPU, which would hold "
            f"{_fullest(plan, memory)}: "
            + (
                f"set actor.micro_batch_size to {fitting} or less"
                if plan.shards > 1
                else f"cut to {fitting} where memory runs out"
            )
        )
    return [*lines, *_offload_lines(plan, memory), *assumed(plan.inventory)]


def assumed(inventory: Inventory) -> list[str]:
    """Return the assumptions of the memory estimate, one line each."""
    of_gpus = [
        f"{format_bytes(CONTEXT)} of a GPU for each process on it, as the context of CUDA or a "
        "renderer",
        f"{format_bytes(NCCL)} of a GPU for each process on it that talks to others over NCCL",
    ]
    assumptions = [
        *inventory.assumptions,
        *(of_gpus if inventory.kind == "GPU" else []),
        f"{FREE:.0%} of any memory stays free: simulators and frames on their way are not counted",
    ]
    return [f"assumed: {line}" for line in assumptions]


def _process_memory(plan: Plan, role: str, process: Process, need: MemoryNeed) -> str:
    """Return the memory of a process as text: all of it on CPU cores, else that on accelerators."""
    if plan.is_on_cores(process):
        total = need.peak + need.host
    else:
        total = need.peak + driver_memory(plan, role, process)
    return format_bytes(total) if total else "-"


def _offload_lines(plan: Plan, memory: Mapping[str, MemoryNeed]) -> list[str]:
    """Return a line on the fullest GPU with and without offloading.

    If the plan does not offload, the line shows the best roles to offload; there is no line if
    offloading would not help or the plan has no GPUs.
    """
    if plan.inventory.kind != "GPU":
        return []
    processes = [(role, process) for role, group in plan.roles() for process in group]
    if any(plan.is_offloaded(role, process) for role, process in processes):
        without = _fullest(replace(plan, offloads=()), memory)
        return [f"offload: the fullest GPU holds {_fullest(plan, memory)}, without it {without}"]
    best = roles_to_offload(plan, memory)
    overrides = " ".join(f"{name}.enable_offload=true" for name in best)
    most = _fullest(replace(plan, offloads=best), memory)
    return [f"with {overrides} the fullest GPU holds {most}"] if best else []


def _fullest(plan: Plan, memory: Mapping[str, MemoryNeed]) -> str:
    """Return the memory use of the fullest accelerator of all nodes, as text."""
    return format_bytes(
        max(most_loaded(plan, node, memory) for node in range(len(plan.inventory.nodes)))
    )


def _size(spec: PolicySpec, precision: str) -> str:
    """Return the number of parameters in words; a policy that is trained has some."""
    if spec.action_dim and not spec.evaluation_only and spec.parameters == 0:
        return "its number of parameters is unknown, so the memory shown is without weights"
    return f"{spec.parameters:,} parameters in {precision}, {spec.trainable_parameters:,} trained"


def _memory_use(subject: str, need: float, have: int, kind: str = "") -> str:
    text = f"{subject} {format_bytes(need)}" + (f" of {format_bytes(have)}" if have else "") + kind
    return (
        text
        if fits(need, have)
        else f"{text}: {TOO_MUCH}, {format_bytes(usable_memory(have))} may be filled"
    )


def _where(plan: Plan, process: Process) -> str:
    """Return where a process runs: its global ranks, or the CPU cores of its node."""
    if plan.inventory.kind == "GPU" and plan.is_on_cores(process):
        return "cores " + format_ranges(plan.allocation(process).local_ranks)
    return format_ranges(process.resources)
