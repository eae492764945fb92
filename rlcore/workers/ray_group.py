"""Workers as Ray actors.

    driver --- ray.get ---> WorkerProcess(EnvWorker) x E  <---- queues ---->  ChannelActor
                       \\--> WorkerProcess(RolloutWorker, ActorWorker or both) x P  <--/

Every wait has a name and a timeout; an actor that dies or raises ends the run with one error that
says which; leaving the group kills whatever is left. A cluster that this process started is shut
down with the outermost :func:`cluster_session`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rlcore.config.schema import ClusterConfig
from rlcore.errors import PlacementError, StuckError, UserError, WorkerError
from rlcore.workers.channel import ChannelActor, RayChannel, drive
from rlcore.workers.group import GroupPlan, Member, OnCount, Part, WorkerGroup
from rlcore.workers.roles import ROLES, has_component

POLL_SECONDS = 0.5  # how often the driver looks at running totals while it waits
OBJECT_STORE_BYTES = 1_000_000_000  # observations in flight; plasma maps it lazily
BEAT_SECONDS = 5.0  # between two signs of life of a worker
STACK_FRAMES = 5  # innermost ones, shown of a worker that is stuck
CHANNEL_CONCURRENCY = 1000  # waits parked in the channel actor, one per open queue end


class WorkerProcess:
    """The actor around any worker: holds it and its end of the channel."""

    def __init__(self, role: str, name: str, settings: Any, channel: Any) -> None:
        threading.Thread(target=_beat, args=(name, channel), daemon=True).start()
        self._role = ROLES[role]
        self._channel = RayChannel(channel)
        self._worker = self._role.make(settings)

    def call(self, method: str, arguments: Mapping[str, Any], watched: bool = False) -> Any:
        told = {"on_progress": self._channel.tell} if watched else {}
        return self._role.calls[method](self._worker, **arguments, **told)

    def talk(self, method: str, arguments: Mapping[str, Any]) -> Any:
        return drive(self._role.talks[method](self._worker, **arguments), self._channel)


def _beat(name: str, channel: Any) -> None:
    """Tell the channel every few seconds where this process's main thread is."""
    main = threading.main_thread().ident
    while True:
        stack = traceback.extract_stack(sys._current_frames()[main or 0])
        text = "".join(traceback.format_list(stack[-STACK_FRAMES:]))
        with contextlib.suppress(RayError):  # the group was stopped
            channel.beat.remote(name, text)
        time.sleep(BEAT_SECONDS)


class WorkerLost(WorkerError):
    """A worker process that is gone."""


class RayGroup(WorkerGroup):
    """See :class:`rlcore.workers.group.WorkerGroup`."""

    def __init__(self, plan: GroupPlan) -> None:
        super().__init__(plan)
        self._session = contextlib.ExitStack()
        self._channel: Any = None
        self._nodes: list[str] = []
        self._workers: dict[str, list[Any]] = {role: [] for role in plan.members}

    def ranks(self, component: str) -> int:
        return len(self._plan.of(component))

    def _launch(self) -> None:
        self._session.enter_context(cluster_session(self._plan.cluster))
        self._nodes = _nodes(self._plan)
        self._channel = (
            ray.remote(ChannelActor)
            .options(num_cpus=0, max_concurrency=CHANNEL_CONCURRENCY)
            .remote()
        )
        for role, members in self._plan.members.items():
            for rank, member in enumerate(members):
                self._workers[role].append(self._spawn(role, rank, member))
        refs = {
            worker.call.remote("start", _START.get(role, {})): _name(role, rank)
            for role, workers in self._workers.items()
            for rank, worker in enumerate(workers)
        }
        self._wait(refs, self._timeouts.start, "start")
        if self.ranks("actor") > 1:
            self._join()

    def _call(
        self,
        component: str,
        method: str,
        per_rank: Sequence[Mapping[str, Any]],
        on_count: OnCount | None = None,
    ) -> list[Any]:
        results = self._ask(component, method, per_rank, self._timeouts.update, on_count)
        if on_count is not None:
            ray.get(self._channel.clear.remote(), timeout=self._timeouts.stop)
        return results

    def _ask(
        self,
        component: str,
        method: str,
        per_rank: Sequence[Mapping[str, Any]],
        timeout: float,
        on_count: OnCount | None = None,
    ) -> list[Any]:
        role = self._role(component)
        asked = zip(self._workers[role], per_rank, strict=False)
        refs = {
            worker.call.remote(method, dict(arguments), on_count is not None): _name(role, rank)
            for rank, (worker, arguments) in enumerate(asked)
        }
        return self._wait(refs, timeout, method, on_count)

    def _talk(self, parts: Sequence[Part], on_count: OnCount | None = None) -> list[Any]:
        """See the base. An env worker that dies is started anew and the whole conversation
        repeated: all randomness is keyed, so it says again what was said, and nothing of the
        first attempt is kept."""
        incidents: list[str] = []
        while True:
            refs = {}
            for part in parts:
                role = self._role(part.component)
                ref = self._workers[role][part.rank].talk.remote(part.talk, dict(part.arguments))
                refs[ref] = _name(role, part.rank)
            doing = " and ".join({part.talk: None for part in parts})
            try:
                # no timeout of its own: each receive inside has one, and names what it waits for
                results = self._wait(refs, None, doing, on_count)
            except WorkerLost as error:
                incidents.append(error.message)
                if len(incidents) > self._plan.cluster.simulator_restarts:
                    raise
                self._break_off(refs, error)
                self._revive(error)
                continue
            ray.get(self._channel.clear.remote(), timeout=self._timeouts.stop)
            for result in results[:1] if incidents else []:
                result.incidents[:0] = incidents
            return results

    def _break_off(self, refs: Mapping[Any, str], error: WorkerLost) -> None:
        """End a conversation that can't be finished; its workers are free again afterwards."""
        ray.get(self._channel.break_off.remote(error.message), timeout=self._timeouts.stop)
        _, busy = ray.wait(list(refs), num_returns=len(refs), timeout=self._timeouts.env)
        if busy:
            raise error
        ray.get(self._channel.clear.remote(), timeout=self._timeouts.stop)

    def _revive(self, error: WorkerLost) -> None:
        """Start lost env workers anew; without any, it is another worker that is lost."""
        members, workers = self._plan.members["env"], self._workers["env"]
        lost = [rank for rank, worker in enumerate(workers) if not self._alive(worker)]
        if not lost:
            raise error
        for rank in lost:
            workers[rank] = self._spawn("env", rank, members[rank])
        refs = {
            workers[rank].call.remote("start", _START["env"]): _name("env", rank) for rank in lost
        }
        self._wait(refs, self._timeouts.start, "start")

    def _alive(self, worker: Any) -> bool:
        try:
            ray.get(worker.call.remote("process_id", {}), timeout=self._timeouts.stop)
        except RayError:
            return False
        return True

    def _spawn(self, role: str, rank: int, member: Member) -> Any:
        node = NodeAffinitySchedulingStrategy(self._nodes[member.seat.node], soft=False)
        return (
            ray.remote(WorkerProcess)
            .options(num_cpus=member.seat.cpus, num_gpus=member.seat.gpus, scheduling_strategy=node)
            .remote(role, _name(role, rank), member.settings, self._channel)
        )

    def _role(self, component: str) -> str:
        return next(role for role in self._workers if has_component(role, component))

    def stop(self, graceful: bool = True) -> None:
        """Stop the workers; `graceful` gives them `timeouts.stop` seconds to do it themselves."""
        workers = [worker for members in self._workers.values() for worker in members]
        self._workers = {role: [] for role in self._workers}
        channel, self._channel = self._channel, None
        if workers and ray.is_initialized():
            refs = [worker.call.remote("stop", {}) for worker in workers]
            if graceful:
                with contextlib.suppress(RayError):
                    ray.wait(refs, num_returns=len(refs), timeout=self._timeouts.stop)
            for worker in [*workers, channel]:
                with contextlib.suppress(RayError):
                    ray.kill(worker)
        self._session.close()

    # -- waiting ----------------------------------------------------------------------------

    def _join(self) -> None:
        """Let the actor ranks form one process group."""
        timeout, size = self._timeouts.start, self.ranks("actor")
        (url,) = self._ask("actor", "rendezvous", [{}], timeout)
        shared = {"url": url, "world_size": size, "timeout": self._timeouts.update}
        self._ask("actor", "join", [{**shared, "rank": rank} for rank in range(size)], timeout)

    def _wait(
        self,
        refs: Mapping[Any, str],
        timeout: float | None,
        doing: str,
        on_count: OnCount | None = None,
    ) -> list[Any]:
        """Results in the order of `refs`; the first failure of any of them is raised."""
        pending = list(refs)
        deadline = None if timeout is None else time.monotonic() + timeout
        while pending:
            done, pending = ray.wait(pending, num_returns=1, timeout=POLL_SECONDS)
            for ref in done:
                self._check(ref, refs[ref], doing)
            if on_count is not None:
                with contextlib.suppress(RayError):
                    on_count(ray.get(self._channel.totals.remote(), timeout=POLL_SECONDS * 10))
            if pending and deadline is not None and time.monotonic() > deadline:
                late = ", ".join(refs[ref] for ref in pending)
                raise self._with_stacks(
                    StuckError(
                        f"{late} did not finish {doing!r} within {timeout:.0f} s",
                        hint="raise cluster.timeouts if the machine is slow, or run with "
                        "cluster.backend=local to look at it under pdb",
                    )
                )
        if on_count is not None:
            on_count(ray.get(self._channel.totals.remote(), timeout=self._timeouts.stop))
        return [_result(ref, name, doing) for ref, name in refs.items()]

    def _check(self, ref: Any, name: str, doing: str) -> None:
        """Raise what a finished call raised; of a wait in vain, with where everybody was."""
        try:
            _result(ref, name, doing)
        except StuckError as error:
            raise self._with_stacks(error) from None

    def _with_stacks(self, error: StuckError) -> StuckError:
        """The error, and what the workers' heartbeats say of where they are."""
        try:
            beats = ray.get(self._channel.beats.remote(), timeout=self._timeouts.stop)
        except RayError:
            return error
        places = [
            f"{name}, heard of {seconds:.0f} s ago, was at:\n{stack.rstrip()}"
            for name, (seconds, stack) in sorted(beats.items())
        ]
        return StuckError("\n".join([error.message, *places]), hint=error.hint)


def _result(ref: Any, name: str, doing: str) -> Any:
    """The value behind a reference; a worker's error as ours, once, with its own traceback."""
    try:
        return ray.get(ref)
    except RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise error.cause from None
        raise WorkerError(
            f"{name} failed while it was asked to {doing}:\n{str(error).rstrip()}",
            hint="cluster.backend=local runs the same code in one process, under pdb",
        ) from None
    except (RayActorError, GetTimeoutError) as error:
        raise WorkerLost(
            f"{name} died while it was asked to {doing} (killed, or out of memory?)",
            hint=f"Ray says: {str(error).splitlines()[0]}",
        ) from None


_START = {"env": {"side": "train"}}  # arguments of a role's `start`


def _name(role: str, rank: int) -> str:
    return f"{role} worker {rank}"


def _nodes(plan: GroupPlan) -> list[str]:
    """Ids of the nodes in rank order (head first, then by address), checked against the plan.

    An actor that can't be placed would stay pending for ever, so what the plan needs is compared
    with what the nodes have before anything is spawned.
    """
    alive = sorted(
        (node for node in ray.nodes() if node["Alive"]),
        key=lambda node: (
            "node:__internal_head__" not in node["Resources"],
            node["NodeManagerAddress"],
        ),
    )
    if len(alive) < plan.cluster.num_nodes:
        raise PlacementError(
            f"cluster.num_nodes is {plan.cluster.num_nodes}, but {len(alive)} joined",
            hint="start Ray on the other nodes (ray start --address=HEAD:6379) and try again",
        )
    for resource in ("CPU", "GPU"):
        for index, node in enumerate(alive):
            members = [member for members in plan.members.values() for member in members]
            seats = [member.seat for member in members if member.seat.node == index]
            need = sum(s.cpus if resource == "CPU" else s.gpus for s in seats)
            have = node["Resources"].get(resource, 0.0)
            if need > have + 1e-6:
                raise PlacementError(
                    f"node {index} has {have:g} {resource}, the placement needs {need:g}",
                    hint="rlcore train ... --dry-run prints the placement",
                )
    return [node["NodeID"] for node in alive]


@contextlib.contextmanager
def cluster_session(cluster: ClusterConfig) -> Iterator[None]:
    """A Ray cluster for what is inside: joined, or started here and shut down at the end.

    Nested sessions (a sweep around its jobs, a test session around its tests) share it.
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray >= 2.51 would otherwise blank the accelerator variables of actors with num_gpus=0
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    local = cluster.address is None
    main_thread = threading.current_thread() is threading.main_thread()
    on_terminate = signal.getsignal(signal.SIGTERM) if main_thread else None
    try:
        ray.init(
            address="local" if local else cluster.address,
            include_dashboard=False if local else None,
            object_store_memory=OBJECT_STORE_BYTES if local else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
        )
    except Exception as error:  # Ray raises bare exceptions here
        raise WorkerError(
            f"Ray did not start: {str(error).splitlines()[0]}",
            hint="an overloaded machine? try again, or use cluster.backend=local",
        ) from error
    if main_thread:  # Ray replaces the handler by one that exits without a word
        signal.signal(signal.SIGTERM, on_terminate or signal.SIG_DFL)
    try:
        yield
    finally:
        ray.shutdown()
