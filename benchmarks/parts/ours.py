"""Rollouts as `rlcore train` makes them, timed from outside, and the CPU time of each process.

Wall time says how fast a rollout is. CPU time, read from the system for every process of the
run, says who used the cores; what is left of `cores x wall` is cores that nobody used.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from rlcore.rollout.messages import GatherOrder
from rlcore.rollout.schedule import training_columns
from rlcore.training.assembly import Assembly
from rlcore.training.gather import Gathered, gather
from rlcore.workers.backend import make_group
from rlcore.workers.group import WorkerGroup

ROLES = {
    "ray::EnvWorker": "env worker",
    "ray::FusedWorker": "policy worker",
    "ray::RolloutWorker": "policy worker",
    "ray::ActorWorker": "policy worker",
    "ray::ChannelActor": "channel",
}
"""By the title of the process; others of Ray's are its daemons."""


@dataclass(frozen=True)
class Work:
    """What a rollout did on one task: how often it needed each component.

    Attributes:
        env_steps: physics steps of episodes.
        episodes: resets.
        decisions: rows the policy answered, each for a frame of its own.
    """

    env_steps: int
    episodes: int
    decisions: int


@dataclass(frozen=True)
class Rollout:
    """One measured rollout.

    Attributes:
        work: what it did, by task.
        wall: seconds.
        phases: wall seconds as the workers report them: "env" and "policy" busy, "wait_env".
        cpu: CPU-seconds by role: "simulators", "env worker", "policy worker", "channel",
            "ray" (its daemons), "driver".
        simulators: CPU-seconds of each simulator process.
    """

    work: tuple[Work, ...]
    wall: float
    phases: dict[str, float]
    cpu: dict[str, float]
    simulators: tuple[float, ...]

    @property
    def env_steps(self) -> int:
        return sum(work.env_steps for work in self.work)

    @property
    def speed(self) -> float:
        """Env steps per second."""
        return self.env_steps / self.wall


def measure_rollouts(assembly: Assembly, repeats: int) -> list[Rollout]:
    """One rollout to warm up, then `repeats` measured ones, on workers of their own."""
    with make_group(assembly.worker_specs) as group:
        group.start()
        return [rollout_of(group, assembly, update) for update in range(repeats + 1)][1:]


def median(rollouts: list[Rollout]) -> Rollout:
    """The rollout of median speed (the slower of the middle two): a real one, whose times and
    counts belong together."""
    return sorted(rollouts, key=lambda rollout: rollout.speed)[(len(rollouts) - 1) // 2]


def training_order(assembly: Assembly, update: int) -> GatherOrder:
    """All columns of an update with exploration, the trajectory kept: as `rlcore train` asks."""
    config = assembly.config
    columns = training_columns(
        assembly.env_specs["train"],
        config.env.train,
        seed=config.runner.seed,
        update=update,
        num_action_chunks=assembly.policy_spec.num_action_chunks,
        group_size=config.algorithm.group_size,
    )
    return GatherOrder(
        side="train", columns=columns, phase="train", update=update, deterministic=False, keep=True
    )


def rollout_of(group: WorkerGroup, assembly: Assembly, update: int) -> Rollout:
    """The rollout of an update, on workers that have started."""
    order = training_order(assembly, update)
    before = cpu_by_process()
    begin = time.perf_counter()
    gathered = gather(group, assembly, order)
    wall = time.perf_counter() - begin
    cpu: dict[str, float] = defaultdict(float)
    simulators = []
    for pid, (role, seconds) in cpu_by_process().items():
        used = seconds - (before[pid][1] if pid in before else 0.0)
        cpu[role] += used
        if role == "simulators":
            simulators.append(used)
    return Rollout(
        work=tuple(
            _work(gathered, task, assembly.policy_spec.num_action_chunks)
            for task in range(len(assembly.env_specs["train"].tasks))
        ),
        wall=wall,
        phases=gathered.seconds,
        cpu=dict(cpu),
        simulators=tuple(simulators),
    )


def _work(gathered: Gathered, task: int, chunk: int) -> Work:
    lengths = [one.length for one in gathered.outcomes if one.episode.task == task]
    return Work(
        env_steps=sum(lengths),
        episodes=len(lengths),
        decisions=sum(-(-length // chunk) for length in lengths),
    )


def cpu_by_process() -> dict[int, tuple[str, float]]:
    """`{pid: (role, CPU-seconds so far)}` of this process and all its descendants."""
    this = psutil.Process()
    found: dict[int, tuple[str, float]] = {}
    roles = {this.pid: "driver"}
    children = this.children(recursive=True)
    titles = {child.pid: _title(child) for child in children}
    for child in children:
        host = titles.get(child.ppid(), "")
        in_worker = ROLES.get(host) == "env worker"
        roles[child.pid] = "simulators" if in_worker else ROLES.get(titles[child.pid], "ray")
    for process in (this, *children):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found[process.pid] = (roles[process.pid], times.user + times.system)
    return found


def cpu_used(
    before: Mapping[int, tuple[str, float]], after: Mapping[int, tuple[str, float]]
) -> float:
    """CPU-seconds of all processes between two readings of :func:`cpu_by_process`."""
    return sum(
        seconds - (before[pid][1] if pid in before else 0.0) for pid, (_, seconds) in after.items()
    )


def _title(process: psutil.Process) -> str:
    """What Ray calls an actor's process, without the method that runs in it."""
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return ""
    return words[0].split(".")[0].strip() if words else ""
