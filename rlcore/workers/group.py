"""The workers of a run as one object: start them, let them talk, ask them, stop them.

Two backends run the same worker classes. Whoever uses a group can't tell which one it has:

    local   all workers in this process, conversations interleaved: pdb works, starts at once
    ray     a process per worker, conversations over a channel (rlcore.workers.ray_group)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

from rlcore.config.schema import ClusterConfig
from rlcore.placement import Seat
from rlcore.rollout.messages import InteractJob, InteractReport
from rlcore.workers.channel import interleave
from rlcore.workers.env_worker import EnvWorker, EnvWorkerSettings
from rlcore.workers.policy_worker import CollectSummary, PolicyWorker, PolicyWorkerSettings

OnCount = Callable[[Mapping[str, int]], None]
"""Called now and then with running totals, e.g. `{"episodes": 12, "successes": 3}`."""


@dataclass(frozen=True)
class GroupPlan:
    """All workers of a run and their seats, by component and rank."""

    cluster: ClusterConfig
    env: tuple[EnvWorkerSettings, ...]
    policy: tuple[PolicyWorkerSettings, ...]
    env_seats: tuple[Seat, ...]
    policy_seats: tuple[Seat, ...]

    def without_policy(self) -> GroupPlan:
        """The env workers alone, to collect demonstrations."""
        return replace(self, policy=(), policy_seats=())


class WorkerGroup(Protocol):
    """What the loops see of the workers."""

    def start(self) -> None:
        """Bring all workers up; on failure none is left behind."""
        ...

    def converse(
        self,
        interact: Sequence[InteractJob],
        collect: Sequence[Any],
        on_count: OnCount | None = None,
    ) -> tuple[list[InteractReport], list[CollectSummary]]:
        """Let env workers and policy workers play: one job per rank each."""
        ...

    def env(self, method: str, per_rank: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Call a method of every env worker, with keyword arguments per rank."""
        ...

    def policy(self, method: str, **arguments: Any) -> list[Any]:
        """Call a method of every policy worker with the same arguments; results by rank."""
        ...

    def policy_on_first(self, method: str, **arguments: Any) -> Any:
        """Call a method of policy worker 0 alone; its result."""
        ...

    def stop(self) -> None:
        """Stop everything that was started; safe to call twice."""
        ...

    def __enter__(self) -> WorkerGroup: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class LocalGroup:
    """All workers in this process. The planned processes of a component are merged into one:
    randomness is keyed by episode, so results don't depend on how many there are."""

    def __init__(self, plan: GroupPlan) -> None:
        self._env = EnvWorker(_alone(plan.env))
        self._policy = PolicyWorker(plan.policy[0]) if plan.policy else None

    def __enter__(self) -> LocalGroup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        try:
            self._env.start("train")
            if self._policy is not None:
                self._policy.start()
        except BaseException:
            self.stop()
            raise

    def converse(
        self,
        interact: Sequence[InteractJob],
        collect: Sequence[Any],
        on_count: OnCount | None = None,
    ) -> tuple[list[InteractReport], list[CollectSummary]]:
        assert self._policy is not None, "planned without a policy"
        talks = [self._env.converse(interact[0]), self._policy.converse(collect[0])]
        report, summary = interleave(talks, on_count)
        return [report], [summary]

    def env(self, method: str, per_rank: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [ENV_METHODS[method](self._env, **per_rank[0])]

    def policy(self, method: str, **arguments: Any) -> list[Any]:
        return [self.policy_on_first(method, **arguments)]

    def policy_on_first(self, method: str, **arguments: Any) -> Any:
        return POLICY_METHODS[method](self._policy, **arguments)

    def stop(self) -> None:
        self._env.stop()


# What may be asked of a worker; a name that isn't here is a bug of the caller.
ENV_METHODS: dict[str, Callable[..., Any]] = {
    "start": EnvWorker.start,
    "demonstrate": EnvWorker.demonstrate,
    "process_id": EnvWorker.process_id,
    "stop": EnvWorker.stop,
}
POLICY_METHODS: dict[str, Callable[..., Any]] = {
    "start": PolicyWorker.start,
    "rendezvous": PolicyWorker.rendezvous,
    "join": PolicyWorker.join,
    "update": PolicyWorker.update,
    "supervised": PolicyWorker.supervised,
    "save": PolicyWorker.save,
    "load": PolicyWorker.load,
    "save_learner": PolicyWorker.save_learner,
    "load_learner": PolicyWorker.load_learner,
    "stop": PolicyWorker.stop,
}


def _alone(settings: Sequence[EnvWorkerSettings]) -> EnvWorkerSettings:
    processes = sum(worker.num_processes for worker in settings)
    return replace(settings[0], rank=0, world_size=1, num_processes=processes)


def make_group(plan: GroupPlan) -> WorkerGroup:
    """The group of the configured backend; nothing is started yet."""
    if plan.cluster.backend == "local":
        return LocalGroup(plan)
    from rlcore.workers.ray_group import RayGroup

    return RayGroup(plan)


def group_ranks(plan: GroupPlan) -> tuple[int, int]:
    """(env ranks, policy ranks) that jobs must be made for: the local backend merges them."""
    if plan.cluster.backend == "local":
        return 1, 1
    return len(plan.env), len(plan.policy)
