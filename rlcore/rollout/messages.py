"""Define the messages between workers, and the operations of a conversation.

A worker's side is a generator that yields :class:`Send` and :class:`Receive`; the backend decides
how they are carried out (blocking on queues between processes, or interleaved in one process).
So the same code runs in many processes and under pdb.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlcore.contracts.episodes import EpisodeOutcome, Footage
from rlcore.contracts.protocols import Observation
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import Episode
from rlcore.rollout.schedule import Column

if TYPE_CHECKING:
    from rlcore.contracts.trajectory import Trajectory


@dataclass(frozen=True)
class Send:
    """Put `message` on each of the queues `keys`; it is stored once."""

    keys: tuple[str, ...]
    message: Any


@dataclass(frozen=True)
class Receive:
    """Take the next message of the queue `key`; `timeout` seconds, then an error that says
    `waiting_for`."""

    key: str
    timeout: float
    waiting_for: str


@dataclass(frozen=True)
class Count:
    """Add to running totals that whoever waits for the conversation may look at."""

    amounts: Mapping[str, int]


Conversation = Generator[Send | Receive | Count, Any, Any]


class Route(NamedTuple):
    """A part of the rows of one stage of one env worker: the other end of a queue pair."""

    env_rank: int
    stage: int
    part: int = 0

    @property
    def observations(self) -> str:
        """Key of the queue env -> rollout."""
        return f"obs/{self.env_rank}/{self.stage}/{self.part}"

    @property
    def actions(self) -> str:
        """Key of the queue rollout -> env."""
        return f"act/{self.env_rank}/{self.stage}/{self.part}"


def env_rank_of(key: str) -> int | None:
    """The env worker that a queue of a :class:`Route` belongs to; None for any other queue."""
    kind, _, rest = key.partition("/")
    return int(rest.partition("/")[0]) if kind in ("obs", "act") else None


OUTCOME = ("rewards", "valid", "terminated", "truncated", "success")


@dataclass
class ChunkOutcome:
    """What came of the last actions, for R rows that acted.

    Attributes:
        columns: column numbers, R of them.
        rewards, valid, terminated, truncated: `[R, C]` as in ChunkResult.
        success: bool `[R]`.
        bootstrap_rows: indices into R whose value after the chunk is wanted.
        bootstrap_observation: the observations of those rows, or None.
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
        """What came of one row's actions, by name, in memory of its own."""
        return {name: np.array(getattr(self, name)[row]) for name in OUTCOME}


class Waiting(NamedTuple):
    """A row of a vector env that waits for an action.

    Attributes:
        column: number of the column that it plays.
        episode: its address.
        episode_number: of the episode in its column.
        decision: of the decision in its episode.
    """

    column: int
    episode: Episode
    episode_number: int
    decision: int


@dataclass
class EnvMessage:
    """Env to rollout: the last chunk's outcome, and the R rows that wait for actions.

    Attributes:
        sequence: running number within the route, checked on arrival.
        outcome: of the chunk before, None at the start.
        rows: those that wait, R of them.
        observation: of the waiting rows; None when there are none: the route is finished.
        finished: episodes that ended with the last chunk.
    """

    sequence: int
    outcome: ChunkOutcome | None
    rows: list[Waiting]
    observation: Observation | None
    finished: list[EpisodeOutcome]


@dataclass(frozen=True)
class GatherOrder:
    """An order to play episodes.

    Attributes:
        side: "train" or "eval": whose env settings.
        columns: what is played.
        phase, update: parts of the keys of the policy's randomness.
        deterministic: without exploration noise.
        keep: keep the trajectory in the rollout workers, for an update; else count outcomes only.
        record: column numbers whose first episode is filmed.
        trace: column numbers of which everything that env and policy exchange is recorded.
        stay: numbers of columns gathered before that stay beside these in the rollout workers.
        temperature: at which tokens are sampled; None: that of the policy's settings.
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


@dataclass(frozen=True)
class RolloutJob:
    """What a rollout worker has to gather.

    Attributes:
        order: how it acts, without the columns.
        routes: the env stages it answers.
        seed: the first part of every key of its randomness.
        forward_batch: fixed rows per forward, or None.
        env_timeout: seconds to wait for a stage.
        weights: version of the weights it must act with; None: those it is trained on, in place.
        shift: of each action entry, std in the env's units of what is added to all actions of an
            episode, drawn once an episode; empty: nothing is.
    """

    order: GatherOrder
    routes: tuple[Route, ...]
    seed: int
    forward_batch: int | None
    env_timeout: float
    weights: int | None = None
    shift: tuple[float, ...] = ()

    def keys(self, rows: Iterable[Waiting]) -> RowKeys:
        """A key a row: (root seed, phase, update, task, trial, replica, decision)."""
        prefix = (self.seed, self.order.phase, self.order.update)
        return RowKeys(tuple((*prefix, *row.episode[:3], row.decision) for row in rows))


@dataclass
class RolloutResult:
    """What a rollout worker gathered.

    Attributes:
        outcomes: of all episodes.
        seconds: by phase.
        trajectory: if one was kept and any column came this way; it stays with the worker.
        columns: the numbers of its columns.
        traces: of the columns that were to be traced, by number.
        weights: version of the weights that acted; None: those that are trained, in place.
    """

    outcomes: list[EpisodeOutcome] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    trajectory: Trajectory | None = None
    columns: list[int] = field(default_factory=list)
    traces: dict[int, Trace] = field(default_factory=dict)
    weights: int | None = None


@dataclass(frozen=True)
class InteractJob:
    """What an env worker has to play: columns per stage.

    Attributes:
        side: "train" or "eval": which env settings to play it on.
        columns: `columns[stage]`.
        chunks_per_column: length of a column in chunks; None: a column ends with its episode.
        bootstrap: whether values after a truncation, or after a full column, are wanted.
        record: column numbers whose first episode is filmed.
        parts: blocks of the rows of a stage; each is a route of its own.
    """

    side: str
    columns: tuple[tuple[Column, ...], ...]
    chunks_per_column: int | None
    bootstrap: bool
    record: frozenset[int] = frozenset()
    parts: int = 1


@dataclass(frozen=True)
class Trace:
    """What passed between env and policy in one column, decision by decision; T decisions.

    Attributes:
        sentence: the task description.
        arrays: by name, each `[T, ...]`: `cameras/NAME` uint8 `[T, H, W, 3]`, `states` float32
            `[T, S]` and `elapsed` float32 `[T]` are the observation; `inputs/NAME` what the policy
            made of it; `actions` float32 `[T, C, A]` what the env got for it; `logprobs` float32
            `[T, C, A]` and `values` float32 `[T, V]` as the policy computed them when it acted,
            `replay/NAME` its samples; `evaluated_logprobs` `[T, C, A]` as it computes them when
            asked again; `rewards` float32, `valid`, `terminated`, `truncated` bool `[T, C]` and
            `success` bool `[T]` are what came of them.
    """

    sentence: str
    arrays: dict[str, np.ndarray]


@dataclass
class InteractReport:
    """What an env worker did.

    Attributes:
        env_steps: simulated steps.
        seconds: time spent in the simulator (reset, chunk), averaged over stages.
        videos: `{column number: its first episode}` of recorded columns.
        incidents: simulator failures that were recovered from, one text each.
        render_settings: of the simulators it has
        (:attr:`rlcore.contracts.specs.EnvSpec.render_settings`).
    """

    env_steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    videos: dict[int, Footage] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    render_settings: dict[str, str | int | float | bool] = field(default_factory=dict)
