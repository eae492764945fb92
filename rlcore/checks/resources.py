"""Check that machines have the accelerators, memory and disk a run needs.

Findings are rows like those of a plugin's doctor. Their status is "missing" if the run can't fit,
and "warning" if it may not fit, because the figures are estimates. Starts no process.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from rlcore.checks.doctor_rows import Row, row
from rlcore.checks.facts import Facts
from rlcore.checks.limits import OFF, checkpoint_interval
from rlcore.checks.pace import time_row
from rlcore.checks.plan_command import plan_command
from rlcore.checks.variants import fitting_variant
from rlcore.config.schema import RunnerConfig
from rlcore.contracts.specs import AlgorithmNeeds
from rlcore.placement import joins
from rlcore.placement.memory import (
    BYTES,
    fits,
    format_bytes,
    main_memory,
    memory_per_process,
    most_loaded,
    usable_memory,
    with_fitting_micro_batches,
)
from rlcore.plugins.registry import Registry
from rlcore.utils.text import format_value

BARE = "weights and what the optimizer keeps of them"


def resources(
    facts: Facts, registry: Registry, given: Sequence[str] = (), *, updates: bool = True
) -> Iterator[Row]:
    """Check the resources that the policy of a run needs; yield a row for each finding.

    Accelerators, disk and duration are checked only for a run on this machine.

    Args:
        registry: the plugins, for the specs of a model that needs less memory.
        given: words of the command line, which :func:`plan_command` repeats.
        updates: whether the algorithm makes updates, whose duration is then estimated.
    """
    local = facts.config.cluster.inventory is None and not joins(facts.config.cluster)
    if local:
        yield from _accelerators(facts)
    rows = list(_memory(facts, plan_command(facts.config, given)))
    if any(entry["status"] != "ok" for entry in rows):
        rows = _with_variant(rows, facts, registry)
    yield from rows
    if local and not facts.config.runner.only_eval:
        yield from _disk(facts)
        if updates:
            yield time_row(facts)


def _accelerators(facts: Facts) -> Iterator[Row]:
    """Check whether torch can use the policy's accelerators, without importing it."""
    plan = facts.placement
    torch = find_spec("torch")
    placed = [process for name in ("rollout", "actor") for process in plan.processes(name)]
    if all(map(plan.is_on_cores, placed)) or torch is None or torch.origin is None:
        return
    version_file = Path(torch.origin).with_name("version.py").read_text(encoding="utf-8")
    if not re.search(r"^(cuda|hip)\b.*= *['\"]", version_file, re.MULTILINE):
        installed = version("torch")
        detail = f"{installed} is built for CPUs alone, and the policy is placed on GPUs"
        fix = f"pip install --force-reinstall torch=={installed.partition('+')[0]}"
        yield row("torch", detail, "missing", fix)


def _memory(facts: Facts, fix: str) -> Iterator[Row]:
    """Check for each node the memory of its fullest accelerator and its main memory."""
    plan = facts.placement
    least = facts.least_memory
    expected = with_fitting_micro_batches(plan, facts.memory)
    for index, node in enumerate(plan.inventory.nodes):
        of_node = f" of node {index}" if len(plan.inventory.nodes) > 1 else ""
        gpu = [most_loaded(plan, index, memory) for memory in (least, expected)]
        main = [main_memory(plan, index, memory) for memory in (least, expected)]
        kinds = (("GPU memory", gpu, node.gpu_memory), ("main memory", main, node.memory))
        for kind, (bare, most), have in kinds:
            if not have:
                continue
            detail = f"about {format_bytes(most)} of {format_bytes(have)}"
            status = "ok"
            if bare > have:
                detail = f"{BARE} take {format_bytes(bare)} of {format_bytes(have)}"
                status = "missing"
            elif not fits(most, have):
                detail += f", and {format_bytes(usable_memory(have))} may be filled"
                status = "warning"
            yield row(kind + of_node, detail, status, fix)


def _with_variant(rows: Sequence[Row], facts: Facts, registry: Registry) -> list[Row]:
    """Add to the rows of memory that does not suffice with which settings it would."""
    variant = fitting_variant(facts, registry)
    if variant is None:
        return list(rows)
    overrides = " ".join(f"{key}={format_value(value)}" for key, value in variant.keys.items())
    return [
        entry
        if entry["status"] == "ok"
        else {
            **entry,
            "detail": f"{entry['detail']}: {variant.words}",
            "fix": f"{overrides}; other layouts: {entry['fix']}" if entry["fix"] else overrides,
        }
        for entry in rows
    ]


def _disk(facts: Facts) -> Iterator[Row]:
    """Check the disk space for the checkpoints that are stored at once."""
    config = facts.config
    spec = facts.counted
    needs = facts.needs or AlgorithmNeeds()
    need = memory_per_process(
        "actor",
        spec,
        config.actor.model.precision,
        reference=needs.reference_logprobs,
        averaged=needs.policy_ema is not None,
    )
    state = need.state - BYTES["fp32"] * spec.trainable_parameters  # no gradients
    # at its end, supervised training alone has no learner; while it lasts, it is saved with one
    size = need.weights + state
    count = _checkpoints_at_once(config.runner)
    folder = Path(config.runner.logger.log_path).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    checkpoints = f"{count} checkpoints" if count > 1 else "a checkpoint"
    detail = f"{checkpoints} of {format_bytes(size)}"
    shared = facts.replay_bytes  # checkpoints share its files, except rows that newer ones dropped
    detail += f" and a replay of {format_bytes(shared)}" if shared else ""
    detail += f", {format_bytes(free)} free at {folder}"
    fix = "runner.logger.log_path=FOLDER, or runner.keep_last=1"
    # supervised training ends with the policy alone
    if (need.weights if config.sft.enabled else size + shared) > free:
        yield row("disk", detail, "missing", fix)
    elif count * size + shared > free:
        yield row("disk", detail, "warning", fix)
    else:
        yield row("disk", detail)


def _checkpoints_at_once(runner: RunnerConfig) -> int:
    """Return the largest number of checkpoints on the disk at once; 1 if nothing bounds it."""
    interval = checkpoint_interval(runner)
    counts: list[int] = []
    if runner.save_interval == OFF:
        counts.append(1)
    elif interval is not None and runner.max_epochs != OFF:
        counts.append(max(1, -(-runner.max_epochs // interval)))
    if runner.checkpoints_kept is not None:
        # the oldest is deleted after the next is written, and the best is an additional one
        counts.append(runner.checkpoints_kept + 1 + runner.keep_best)
    return min(counts, default=1)
