"""Find how many jobs fit on this machine at once, and assign cores and accelerators to them.

A job's placement is planned as that of a single run: with one accelerator (without any: one core),
then two, ... until the plan is feasible. That number and the plan's main memory limit the number of
jobs. Cores and accelerators are then divided evenly between the jobs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from rlcore.checks.facts import gather_facts, plan_run
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_error, read_as
from rlcore.placement import Inventory, joins
from rlcore.placement.memory import main_memory, usable_memory
from rlcore.plugins.registry import load_plugins
from rlcore_sweeps.job_record import JOBS

FILE = "share"


@dataclass(frozen=True)
class Share:
    """The share of the machine that each job gets.

    Attributes:
        cores: number of cores of a job.
        devices: number of accelerators of a job.
        jobs: number of jobs that run at once.
    """

    cores: int
    devices: int
    jobs: int

    def keep(self, sweep: Path) -> None:
        """Write the share to the sweep's folder, so that later batches get the same one."""
        write_text(sweep / JOBS / FILE, json.dumps(asdict(self)) + "\n")


@dataclass(frozen=True)
class Slot:
    """The cores and accelerators of one job.

    Attributes:
        cores: core numbers; empty: the job is not pinned.
        devices: names for CUDA_VISIBLE_DEVICES; None: the variable is not changed.
    """

    cores: tuple[int, ...] = ()
    devices: tuple[str, ...] | None = None


def find_share(sweep: Path, parallel: str | int, configs: Sequence[RunConfig]) -> Share:
    """Find the share of each job, and write it to the sweep's folder.

    Args:
        sweep: the sweep's folder. With "auto", a share that an earlier batch or attempt wrote there
            is used again if this machine has enough cores for it.
        parallel: number of jobs that run at once; "auto": as many as fit.
        configs: configurations of the jobs, without jobs whose configuration does not compose.

    Raises:
        ConfigError: `parallel` is invalid, or exceeds the number of cores or of accelerators.
        CheckpointError: the file of the earlier share is damaged.
    """
    (node,) = Inventory.local().nodes
    if parallel == "auto":
        stored = _stored_share(sweep / JOBS / FILE)
        # a larger share was written on another machine
        if stored is not None and stored.jobs * stored.cores <= node.cpus:
            return stored
        jobs = _jobs_that_fit(configs)
    elif isinstance(parallel, int) and parallel >= 1:
        jobs = parallel
    else:
        raise ConfigError(f"sweep.parallel must be auto or a number from 1, got {parallel!r}")
    if jobs > node.cpus or (node.gpus and jobs > node.gpus):
        what = f"{node.gpus} accelerators" if 0 < node.gpus < jobs else f"{node.cpus} cores"
        raise ConfigError(
            f"sweep.parallel is {jobs}, and there are {what}", hint="sweep.parallel=auto"
        )
    share = Share(node.cpus // jobs, node.gpus // jobs, jobs)
    share.keep(sweep)
    return share


def _stored_share(file: Path) -> Share | None:
    """Read the share that an earlier batch or attempt wrote; None if there is none.

    Raises:
        CheckpointError: the file is damaged.
    """
    if not file.is_file():
        return None
    share = read_as(Share, file)
    if share.cores < 0 or share.devices < 0 or share.jobs < 1:
        raise damaged_error(file, f"no machine can be divided so: {share}")
    return share


def slots(share: Share) -> list[Slot]:
    """Return one slot for each job that runs at once, with disjoint cores and accelerators.

    Jobs are not bound if only one runs at once, or where the operating system is not Linux.
    """
    (node,) = Inventory.local().nodes
    if share.jobs == 1 or not psutil.LINUX:
        return [Slot() for _ in range(share.jobs)]
    cores = psutil.Process().cpu_affinity()
    return [
        Slot(
            tuple(cores[n * share.cores : (n + 1) * share.cores]),
            node.devices[n * share.devices : (n + 1) * share.devices] if node.gpus else None,
        )
        for n in range(share.jobs)
    ]


def threads_of(config: RunConfig, share: Share) -> int | None:
    """Return the number of torch threads that the plan gives each policy worker of a job.

    None if the user set the number, the job joins a cluster, its plan fails on this share, or its
    workers get different numbers.
    """
    if config.cluster.torch_threads is not None or joins(config.cluster):
        return None
    try:
        plan = plan_run(config, _machine(share.cores, share.devices), load_plugins())
    except UserError:  # the run reports the error
        return None
    allocations = [
        allocation for role in ("rollout", "actor") for allocation in plan.allocations(role)
    ]
    counts = {plan.cores(allocation) for allocation in allocations}
    return counts.pop() if len(counts) == 1 else None


def _jobs_that_fit(configs: Sequence[RunConfig]) -> int:
    """Return how many of the jobs fit on this machine at once, at least 1.

    The largest need of any job counts for all. The result is 1 if a job joins a cluster, which
    other users may share, or needs the whole machine.
    """
    (node,) = Inventory.local().nodes
    if not configs or any(joins(config.cluster) for config in configs):
        return 1
    needs = [_needs_of(config, node.cpus, node.gpus) for config in configs]
    if None in needs:  # a job that needs more than the machine has reports that itself
        return 1
    feasible = [need for need in needs if need is not None]
    rooms = [node.gpus or node.cpus, node.cpus]
    limits = [room // max(ranks for ranks, _ in feasible) for room in rooms]
    largest_memory = max(memory for _, memory in feasible)
    if node.memory and largest_memory:
        limits.append(int(usable_memory(node.memory) // largest_memory))
    return max(1, min(len(configs), *limits))


def _needs_of(config: RunConfig, cpus: int, gpus: int) -> tuple[int, int] | None:
    """Return the fewest ranks that a run can be placed on, and the bytes of main memory it needs.

    A rank is an accelerator with its even share of the cores, or one core on a machine without
    accelerators. None if the run cannot be placed on this machine.
    """
    registry = load_plugins()
    for ranks in range(1, (gpus or cpus) + 1):
        inventory = _machine(max(1, cpus * ranks // gpus) if gpus else ranks, ranks if gpus else 0)
        try:
            plan = plan_run(config, inventory, registry)
            facts = gather_facts(config, registry, plan)
        except UserError:
            continue
        return ranks, main_memory(plan, 0, facts.memory)
    return None


def _machine(cpus: int, gpus: int) -> Inventory:
    """Return the inventory of this machine, reduced to so many cores and accelerators."""
    (node,) = Inventory.local().nodes
    few: Any = replace(node, cpus=cpus, gpus=gpus, devices=node.devices[:gpus])
    return Inventory((few,))
