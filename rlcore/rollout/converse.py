"""Run the policy's side of the conversation between env workers and rollout workers.

receives   obs/RANK/STAGE/PART of its routes (EnvMessage), in a fixed order
sends      act/RANK/STAGE/PART               (actions float32 `[R, C, A]`)
waits for  the simulation of one stage at a time, while other stages simulate
"""

from __future__ import annotations

import time

import numpy as np

from rlcore.contracts.errors import WorkerError
from rlcore.contracts.protocols import Inputs, Observation, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.rollout.builder import TrajectoryBuilder
from rlcore.rollout.decide import decide
from rlcore.rollout.messages import (
    Conversation,
    Count,
    EnvMessage,
    Receive,
    RolloutJob,
    RolloutResult,
    Route,
    Send,
)
from rlcore.rollout.trace import Tracer
from rlcore.utils.spans import OFF, WAIT, Spans
from rlcore.validation.policy import check_inputs, check_output

ROW = "policy"
"""Row of the spans of a conversation."""


def converse(policy: Policy, job: RolloutJob, spans: Spans = OFF) -> Conversation:
    """Send actions to all routes until each is finished, and return a :class:`RolloutResult`.

    Args:
        policy: policy that acts.
        job: the job of this worker.
        spans: recorder of the worker.
    """
    temperature = job.order.temperature
    if temperature is None or not policy.spec.has_temperature:
        return (yield from _converse(policy, job, spans))
    policy.set_temperature(temperature)
    try:
        return (yield from _converse(policy, job, spans))
    finally:
        policy.set_temperature(None)


def _converse(policy: Policy, job: RolloutJob, spans: Spans) -> Conversation:
    result = RolloutResult(seconds={"policy": 0.0, "wait_env": 0.0}, weights=job.weights)
    acting_update = job.order.update - job.order.staleness
    builder = TrajectoryBuilder(version=acting_update) if job.order.keep else None
    trace = job.order.trace
    tracer = Tracer(trace) if trace else None
    expected = dict.fromkeys(job.routes, 0)
    answered: dict[Route, EnvMessage] = {}
    while expected:
        for route in list(expected):
            begin = time.perf_counter()
            with spans.measure(ROW, f"{WAIT}observations"):
                message: EnvMessage = yield Receive(
                    route.observations,
                    job.env_timeout,
                    f"stage {route.stage} of env worker {route.env_rank}",
                )
            result.seconds["wait_env"] += time.perf_counter() - begin
            if message.sequence != expected[route]:
                raise WorkerError(
                    f"{route}: got message {message.sequence}, expected message {expected[route]}"
                )
            begin = time.perf_counter()
            result.outcomes.extend(message.finished)
            if message.finished:
                successes = sum(outcome.success for outcome in message.finished)
                yield Count({"episodes": len(message.finished), "successes": successes})
            if builder is not None:
                _add_outcome(builder, policy, job, message, answered.get(route), spans)
            if tracer is not None and message.outcome is not None:
                tracer.add_outcome(message.outcome)
            if message.observation is None:
                del expected[route]
                result.seconds["policy"] += time.perf_counter() - begin
                continue
            expected[route] += 1
            answered[route] = message
            actions = _act(builder, tracer, policy, job, message, spans)
            result.seconds["policy"] += time.perf_counter() - begin
            yield Send((route.actions,), actions)
    if builder is not None and builder.columns():
        result.trajectory = builder.build()
        result.columns = builder.columns()
    if tracer is not None:
        result.traces = tracer.traces()
    return result


def _act(
    builder: TrajectoryBuilder | None,
    tracer: Tracer | None,
    policy: Policy,
    job: RolloutJob,
    message: EnvMessage,
    spans: Spans,
) -> np.ndarray:
    """Return the actions for the waiting rows of a message, and record the decisions."""
    assert message.observation is not None
    inputs, output = _decide(policy, job, message.observation, job.keys(message.rows), spans)
    if builder is not None:
        builder.add_decisions(message.rows, inputs, output)
    if tracer is not None:
        tracer.add_decisions(policy, message, inputs, output)
    return output.actions


def _decide(
    policy: Policy, job: RolloutJob, observation: Observation, keys: RowKeys, spans: Spans
) -> tuple[Inputs, PolicyOutput]:
    """Return the policy's inputs and its decisions, both checked against its spec."""
    rows = len(keys)
    with spans.measure(ROW, "prepare"):
        inputs = check_inputs(policy.spec, rows, policy.prepare(observation))
    with spans.measure(ROW, "forward"):
        output = decide(
            policy,
            inputs,
            keys,
            deterministic=job.order.deterministic,
            forward_batch=job.forward_batch,
        )
    return inputs, check_output(policy.spec, rows, output)


def _add_outcome(
    builder: TrajectoryBuilder,
    policy: Policy,
    job: RolloutJob,
    message: EnvMessage,
    before: EnvMessage | None,
    spans: Spans,
) -> None:
    """Add the outcome of the last chunk, and the requested decisions after it, to the trajectory.

    Of these decisions the values are added, and with `job.final_decisions` all else. The one after
    decision d of an episode is made with the keys of decision d + 1, which the episode itself never
    uses.

    Args:
        before: previous message of the route, whose rows acted; None before the first chunk.
        spans: recorder of the worker.
    """
    outcome = message.outcome
    if outcome is None or before is None:
        return
    builder.add_outcome(outcome)
    if outcome.bootstrap_observation is None:
        return
    rows = [before.rows[index] for index in outcome.bootstrap_rows]
    keys = job.keys(row._replace(decision=row.decision + 1) for row in rows)
    inputs, output = _decide(policy, job, outcome.bootstrap_observation, keys, spans)
    builder.add_bootstrap([row.column for row in rows], output.values)
    if job.final_decisions:
        builder.add_final_decisions(rows, inputs, output)
