"""Run the policy's side of the conversation between env and policy.

consumes   obs/RANK/STAGE/PART of its routes (EnvMessage), in a fixed order
produces   act/RANK/STAGE/PART               (ActionMessage)
waits for  a stage's simulation; with several stages, the others simulate meanwhile
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.errors import WorkerError
from rlcore.contracts.protocols import Inputs, Observation, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import Episode
from rlcore.contracts.trajectory import Trajectory
from rlcore.rollout.builder import TrajectoryBuilder
from rlcore.rollout.decide import decide
from rlcore.rollout.messages import (
    ActionMessage,
    Conversation,
    Count,
    EnvMessage,
    Receive,
    Route,
    Send,
    Trace,
)
from rlcore.rollout.trace import Tracer
from rlcore.validation.policy import checked_inputs, checked_output


@dataclass(frozen=True)
class RolloutJob:
    """What a rollout worker has to gather.

    Attributes:
        routes: the env stages it answers.
        seed, phase, update: the first parts of every key of its randomness.
        deterministic: without exploration noise.
        temperature: at which tokens are sampled; None: that of the policy's settings.
        keep: build a trajectory (training), or only count outcomes (evaluation).
        forward_batch: fixed rows per forward, or None.
        env_timeout: seconds to wait for a stage.
        stay: numbers of columns gathered before that stay in the trajectory; the others go.
        weights: version of the weights it must act with; None: those it is trained on, in place.
        trace: numbers of the columns of which all that passes is written down.
    """

    routes: tuple[Route, ...]
    seed: int
    phase: str
    update: int
    deterministic: bool
    keep: bool
    forward_batch: int | None
    env_timeout: float
    stay: frozenset[int] = frozenset()
    weights: int | None = None
    trace: frozenset[int] = frozenset()
    temperature: float | None = None

    def keys(self, episodes: list[Episode], decisions: list[int]) -> RowKeys:
        """A key a row: (root seed, phase, update, task, trial, replica, decision)."""
        prefix = (self.seed, self.phase, self.update)
        return RowKeys(
            tuple(
                (*prefix, episode.task, episode.trial, episode.replica, decision)
                for episode, decision in zip(episodes, decisions, strict=True)
            )
        )


@dataclass
class RolloutResult:
    """Outcomes of all episodes, seconds by phase, the trajectory, if one was kept and any column
    came this way, with the numbers of its columns, and what was traced, by column number."""

    outcomes: list[EpisodeOutcome] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    trajectory: Trajectory | None = None
    columns: list[int] = field(default_factory=list)
    traces: dict[int, Trace] = field(default_factory=dict)


def converse(policy: Policy, job: RolloutJob) -> Conversation:
    """Answer the routes until each is finished; returns a :class:`RolloutResult`."""
    if job.temperature is None or not policy.spec.temperature:
        return (yield from _converse(policy, job))
    policy.set_temperature(job.temperature)
    try:
        return (yield from _converse(policy, job))
    finally:
        policy.set_temperature(None)


def _converse(policy: Policy, job: RolloutJob) -> Conversation:
    result = RolloutResult(seconds={"policy": 0.0, "wait_env": 0.0})
    builder = TrajectoryBuilder(version=job.update) if job.keep else None
    tracer = Tracer(job.trace)
    expected = dict.fromkeys(job.routes, 0)
    answered: dict[Route, EnvMessage] = {}
    while expected:
        for route in list(expected):
            begin = time.perf_counter()
            message: EnvMessage = yield Receive(
                route.observations,
                job.env_timeout,
                f"stage {route.stage} of env worker {route.env_rank}",
            )
            result.seconds["wait_env"] += time.perf_counter() - begin
            if message.sequence != expected[route]:
                raise WorkerError(
                    f"message {message.sequence} of {route} came while {expected[route]} was due"
                )
            begin = time.perf_counter()
            result.outcomes.extend(message.finished)
            if message.finished:
                won = sum(outcome.success for outcome in message.finished)
                yield Count({"episodes": len(message.finished), "successes": won})
            if builder is not None:
                _account(builder, policy, job, message, answered.get(route))
            if message.outcome is not None:
                tracer.add_outcome(message.outcome)
            if message.observation is None:
                del expected[route]
                result.seconds["policy"] += time.perf_counter() - begin
                continue
            expected[route] += 1
            answered[route] = message
            answer = _answer(builder, tracer, policy, job, message)
            result.seconds["policy"] += time.perf_counter() - begin
            yield Send(route.actions, answer)
    if builder is not None and builder.columns():
        result.trajectory, result.columns = builder.build(), builder.columns()
    result.traces = tracer.traces()
    return result


def _answer(
    builder: TrajectoryBuilder | None,
    tracer: Tracer,
    policy: Policy,
    job: RolloutJob,
    message: EnvMessage,
) -> ActionMessage:
    assert message.observation is not None
    inputs, output = _decided(
        policy, job, message.observation, job.keys(message.episodes, message.decisions)
    )
    if builder is not None:
        builder.add_decisions(
            message.columns, message.episodes, message.episode_numbers, inputs, output
        )
    tracer.add_decisions(policy, message, inputs, output)
    return ActionMessage(message.sequence, output.actions)


def _decided(
    policy: Policy, job: RolloutJob, observation: Observation, keys: RowKeys
) -> tuple[Inputs, PolicyOutput]:
    """What the policy made of an observation, and what it decided; both as its spec says."""
    rows = len(keys)
    inputs = checked_inputs(policy.spec, rows, policy.prepare(observation))
    output = decide(
        policy,
        inputs,
        keys,
        deterministic=job.deterministic,
        forward_batch=job.forward_batch,
    )
    return inputs, checked_output(policy.spec, rows, output)


def _account(
    builder: TrajectoryBuilder,
    policy: Policy,
    job: RolloutJob,
    message: EnvMessage,
    before: EnvMessage | None,
) -> None:
    """Write down the outcome of the last chunk, and the values after it where wanted.

    `before` is the message whose rows acted: a value after decision d of an episode is drawn
    with the keys of decision d + 1, which the episode itself never reaches.
    """
    outcome = message.outcome
    if outcome is None or before is None:
        return
    builder.add_outcome(outcome)
    if outcome.bootstrap_observation is None:
        return
    rows = outcome.bootstrap_rows
    keys = job.keys(
        [before.episodes[row] for row in rows], [before.decisions[row] + 1 for row in rows]
    )
    values = _decided(policy, job, outcome.bootstrap_observation, keys)[1].values
    builder.add_bootstrap([outcome.columns[row] for row in rows], values)
