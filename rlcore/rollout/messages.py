"""Define the messages between workers, and the operations of a conversation.

A worker's side of a conversation is a generator that yields :class:`Send`, :class:`Receive` and
:class:`Count`. The backend decides how these operations are executed: by blocking on queues between
processes, or interleaved in one process. So the same code runs in many processes and under pdb.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlcore.contracts.episodes import EpisodeOutcome, Footage
from rlcore.contracts.protocols import Observation
from rlcore.contracts.rng import DecisionKey, RowKeys
from rlcore.contracts.specs import Episode
from rlcore.rollout.schedule import Column

if TYPE_CHECKING:
    from rlcore.contracts.trajectory import Trajectory


@dataclass(frozen=True)
class Send:
    """Put `message` on each of the queues `keys`; all of them share one stored copy."""

    keys: tuple[str, ...]
    message: Any


@dataclass(frozen=True)
class Receive:
    """Take the next message from the queue `key`.

    Attributes:
        key: key of the queue.
        timeout: seconds to wait for a message; then the wait ends with an error.
        waiting_for: the expected message and its sender, for that error.
    """

    key: str
    timeout: float
    waiting_for: str


@dataclass(frozen=True)
class Count:
    """Add to the running totals that the driver may read while it waits for the conversation."""

    amounts: Mapping[str, int]


Conversation = Generator[Send | Receive | Count, Any, Any]


class Route(NamedTuple):
    """A part of the rows of one stage of one env worker, with its pair of queues.

    Attributes:
        env_rank: rank of the env worker.
        stage: number of the stage within the env worker.
        part: number of the block of the stage's rows.
    """

    env_rank: int
    stage: int
    part: int = 0

    @property
    def observations(self) -> str:
        """Return the key of the queue from env worker to rollout worker."""
        return f"obs/{self.env_rank}/{self.stage}/{self.part}"

    @property
    def actions(self) -> str:
        """Return the key of the queue from rollout worker to env worker."""
        return f"act/{self.env_rank}/{self.stage}/{self.part}"


def env_rank_of(key: str) -> int | None:
    """Return the rank of the env worker at a queue of a :class:`Route`; None for other queues."""
    kind, _, rest = key.partition("/")
    return int(rest.partition("/")[0]) if kind in ("obs", "act") else None


OUTCOME = ("rewards", "valid", "terminated", "truncated", "success")


@dataclass
class ChunkOutcome:
    """Results of the last chunk, for the R rows that acted.

    Attributes:
        columns: R column numbers.
        rewards, valid, terminated, truncated: `[R, C]`, as in
            :class:`rlcore.contracts.protocols.ChunkResult`.
        success: bool `[R]`, as in `ChunkResult`.
        bootstrap_rows: indices of rows, in [0, R), for which a decision after the chunk, with its
            value, is requested.
        bootstrap_observation: observation of those rows after the chunk; None without such rows.
    """

    columns: list[int]
    rewards: np.ndarray
    valid: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray
    bootstrap_rows: list[int] = field(default_factory=list)
    bootstrap_observation: Observation | None = None

    def of_row(self, row: int) -> dict[str, np.ndarray]:
        """Return copies of one row's results, by name (:data:`OUTCOME`)."""
        return {name: np.array(getattr(self, name)[row]) for name in OUTCOME}


class WaitingRow(NamedTuple):
    """A row of a vector env that waits for an action.

    Attributes:
        column: number of the column that the row plays.
        episode: address of the current episode.
        episode_number: number of the episode within its column, from 0.
        decision: number of the decision within its episode, from 0.
    """

    column: int
    episode: Episode
    episode_number: int
    decision: int


@dataclass
class EnvMessage:
    """The message from env to policy: results of the last chunk, and R rows that wait for actions.

    Attributes:
        sequence: number of the message within its route, from 0; checked on arrival.
        outcome: results of the last chunk; None in the first message.
        rows: the R waiting rows.
        observation: observation of the waiting rows; None if no row waits, which finishes the
            route.
        finished: episodes that ended with the last chunk.
    """

    sequence: int
    outcome: ChunkOutcome | None
    rows: list[WaitingRow]
    observation: Observation | None
    finished: list[EpisodeOutcome]


@dataclass(frozen=True)
class GatherOrder:
    """An order to play episodes.

    Attributes:
        side: "train" or "eval", which selects the env settings.
        columns: columns to play.
        phase, update: parts of the keys of the policy's randomness.
        deterministic: whether the policy acts without exploration noise.
        keep: whether rollout workers store the trajectory for an update; if not, only outcomes are
            returned.
        record: numbers of columns whose first episode is filmed.
        trace: numbers of columns whose exchange between env and policy is recorded.
        stay: numbers of columns of earlier orders that remain in the stored trajectory.
        temperature: softmax temperature of token sampling; None: that of the policy's settings.
        staleness: updates by which the weights that act are behind those that `update` begins with.
    """

    side: str
    columns: Sequence[Column]
    phase: str
    update: int
    deterministic: bool
    keep: bool
    record: frozenset[int] = frozenset()
    trace: frozenset[int] = frozenset()
    stay: frozenset[int] = frozenset()
    temperature: float | None = None
    staleness: int = 0


@dataclass(frozen=True)
class RolloutJob:
    """The job of one rollout worker.

    Attributes:
        order: how the worker acts; its columns are not read.
        routes: routes to which the worker sends actions.
        seed: root seed, the first part of every key of its randomness.
        forward_batch: fixed number of rows per forward; None: all waiting rows of a message.
        env_timeout: seconds to wait for a message of a stage.
        weights: version of the weights with which the worker must act; None: the policy is trained
            in the same process.
        final_decisions: whether decisions at final observations are added to the trajectory
            (:attr:`rlcore.contracts.specs.ReplayNeeds.final_decisions`).
        tasks: names of the tasks of the env that is played, in its order.
    """

    order: GatherOrder
    routes: tuple[Route, ...]
    seed: int
    forward_batch: int | None
    env_timeout: float
    weights: int | None = None
    final_decisions: bool = False
    tasks: tuple[str, ...] = ()

    def keys(self, rows: Iterable[WaitingRow]) -> RowKeys:
        """Return one key per row, a :class:`DecisionKey`."""
        prefix = (self.seed, self.order.phase, self.order.update)
        keys = tuple(DecisionKey(*prefix, *row.episode[:3], row.decision) for row in rows)
        return RowKeys(keys, self.tasks)


@dataclass
class RolloutResult:
    """The result of one rollout worker.

    Attributes:
        outcomes: outcomes of all episodes that were played on its routes.
        seconds: time spent in "policy" and "wait_env".
        trajectory: trajectory of its columns, which the worker stores and does not send; None if
            the order does not keep it or the worker had no column.
        columns: numbers of the columns in `trajectory`, in its order.
        traces: traces by column number, of the columns to be traced.
        weights: version of the weights that acted; None: the policy is trained in the same process.
    """

    outcomes: list[EpisodeOutcome] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    trajectory: Trajectory | None = None
    columns: list[int] = field(default_factory=list)
    traces: dict[int, Trace] = field(default_factory=dict)
    weights: int | None = None


@dataclass(frozen=True)
class InteractJob:
    """The job of one env worker.

    Attributes:
        side: "train" or "eval", which selects the env settings.
        columns: `columns[stage]`, columns to play on each stage.
        chunks_per_column: length of a column in chunks; None: a column ends with its episode.
        bootstrap: whether to request decisions, with their values, after truncated episodes, and
            after the last chunk of columns of fixed length.
        record: numbers of columns whose first episode is filmed.
        parts: number of blocks into which the rows of a stage are split, each with its own route.
    """

    side: str
    columns: tuple[tuple[Column, ...], ...]
    chunks_per_column: int | None
    bootstrap: bool
    record: frozenset[int] = frozenset()
    parts: int = 1


@dataclass(frozen=True)
class Trace:
    """The exchange between env and policy in one column of T decisions.

    Attributes:
        sentence: the instruction.
        arrays: arrays `[T, ...]` by name. The observation: `cameras/NAME` uint8 `[T, H, W, 3]`,
            `states` float32 `[T, S]` and `elapsed` float32 `[T]`. The policy's inputs:
            `inputs/NAME`. The actions sent to the env: `actions` float32 `[T, C, A]`. What the
            policy computed when it acted: `logprobs` float32 `[T, C, A]`, `values` float32
            `[T, V]` and `replay/NAME`. The log-probs of a re-evaluation: `evaluated_logprobs`
            `[T, C, A]`. The results: `rewards` float32 `[T, C]`, `valid`, `terminated` and
            `truncated` bool `[T, C]`, and `success` bool `[T]`.
    """

    sentence: str
    arrays: dict[str, np.ndarray]


@dataclass
class InteractReport:
    """The report of one env worker.

    Attributes:
        env_steps: number of simulated steps.
        seconds: time spent in the simulator ("env_reset", "env_chunk"), averaged over stages.
        videos: first episodes of recorded columns, by column number.
        incidents: one text for each simulator failure from which the worker recovered.
        render_settings: render settings of its simulators
            (:attr:`rlcore.contracts.specs.EnvSpec.render_settings`).
    """

    env_steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    videos: dict[int, Footage] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    render_settings: dict[str, str | int | float | bool] = field(default_factory=dict)
