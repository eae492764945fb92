"""Find how many jobs have room side by side on this machine, and which cores and accelerators each
of them gets.

A job is planned as a single run is: on one core, on two, ... until its placement can be carried
out; that and its memory say how many fit. What is there is then divided evenly between them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from rlcore.checks.facts import gather_facts, planned
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged, read_as
from rlcore.placement import Inventory
from rlcore.placement.inventory import joins
from rlcore.placement.memory import main_memory, usable
from rlcore.plugins.registry import load_plugins
from rlcore_sweeps.job import JOBS

FILE = "share"


@dataclass(frozen=True)
class Share:
    """What a job gets of the machine.

    Attributes:
        cores: how many.
        devices: how many accelerators.
        jobs: how many shares there are.
    """

    cores: int
    devices: int
    jobs: int

    def keep(self, sweep: Path) -> None:
        """Note it, so that jobs that come later get as much."""
        write_text(sweep / JOBS / FILE, json.dumps(asdict(self)) + "\n")


@dataclass(frozen=True)
class Slot:
    """The cores and accelerators of one job.

    Attributes:
        cores: by number; empty: the job is not bound to any.
        devices: as CUDA_VISIBLE_DEVICES names them; None: whatever there is.
    """

    cores: tuple[int, ...] = ()
    devices: tuple[str, ...] | None = None


def find_share(sweep: Path, parallel: str | int, configs: Sequence[RunConfig]) -> Share:
    """What each job gets.

    Args:
        sweep: its folder; an earlier batch or attempt may have noted the share there.
        parallel: how many jobs at once; "auto": as many as there is room for.
        configs: those of the jobs that compose.

    Raises:
        ConfigError: a number of jobs that the machine has no cores for.
    """
    (node,) = Inventory.local().nodes
    if parallel == "auto":
        kept = _kept(sweep / JOBS / FILE)
        if kept is not None and kept.jobs * kept.cores <= node.cpus:  # not one of another machine
            return kept
        jobs = _fitting(configs)
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


def _kept(file: Path) -> Share | None:
    """The share that an earlier batch or attempt noted; None where there is none.

    Raises:
        CheckpointError: it is damaged.
    """
    if not file.is_file():
        return None
    share = read_as(Share, file)
    if share.cores < 0 or share.devices < 0 or share.jobs < 1:
        raise damaged(file, f"no machine can be divided so: {share}")
    return share


def slots(share: Share) -> list[Slot]:
    """The place of each job that runs at the same time; no two have a core in common."""
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
    """The torch threads that a job's policy workers get by themselves on a share; None where they
    were set, or differ."""
    if config.cluster.torch_threads is not None or joins(config.cluster):
        return None
    try:
        plan = planned(config, _machine(share.cores, share.devices), load_plugins())
    except UserError:  # it is for the run to say
        return None
    allocations = [
        allocation for role in ("rollout", "actor") for allocation in plan.allocations(role)
    ]
    counts = {plan.cores(allocation) for allocation in allocations}
    return counts.pop() if len(counts) == 1 else None


def _fitting(configs: Sequence[RunConfig]) -> int:
    """How many of the jobs fit side by side; one where one of them joins a cluster, which others
    may use too."""
    (node,) = Inventory.local().nodes
    if not configs or any(joins(config.cluster) for config in configs):
        return 1
    needs = [_need(config, node.cpus, node.gpus) for config in configs]
    if None in needs:  # it takes the whole machine, or more
        return 1
    found = [need for need in needs if need is not None]
    rooms = [node.gpus or node.cpus, node.cpus]
    limits = [room // max(ranks for ranks, _ in found) for room in rooms]
    most = max(memory for _, memory in found)
    if node.memory and most:
        limits.append(int(usable(node.memory) // most))
    return max(1, min(len(configs), *limits))


def _need(config: RunConfig, cpus: int, gpus: int) -> tuple[int, int] | None:
    """The fewest ranks that a run can be carried out on, and its bytes of main memory there; None
    where it can't be on this machine."""
    registry = load_plugins()
    for ranks in range(1, (gpus or cpus) + 1):
        inventory = _machine(max(1, cpus * ranks // gpus) if gpus else ranks, ranks if gpus else 0)
        try:
            plan = planned(config, inventory, registry)
            facts = gather_facts(config, registry, plan)
        except UserError:
            continue
        return ranks, main_memory(plan, 0, facts.memory)
    return None


def _machine(cpus: int, gpus: int) -> Inventory:
    (node,) = Inventory.local().nodes
    few: Any = replace(node, cpus=cpus, gpus=gpus, devices=node.devices[:gpus])
    return Inventory((few,))
