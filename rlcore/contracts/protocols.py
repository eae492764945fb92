"""Define what core expects of an Env, a Policy, an Algorithm and a Tracker.

Arrays at this level are numpy on the env side; a policy works with tensors of its own
device. Shape legend used all over rlcore:

    B  rows of a batch (sub-envs)          T  chunks of a column
    C  actions executed per decision       N  columns (episodes, or env rows with auto_reset)
    A  entries of an env action            V  values per decision (0, 1 or C)
    S  entries of the state                H, W  camera height and width
    M  stored decisions (valid chunks)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import numpy as np

from rlcore.contracts.decisions import Evaluation as Evaluation
from rlcore.contracts.decisions import PolicyOutput as PolicyOutput
from rlcore.contracts.specs import AlgorithmNeeds, EnvSpec, Episode, PolicySpec

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from rlcore.contracts.learning import Among, Replay, RowLoss, Step
    from rlcore.contracts.metric import Metrics
    from rlcore.contracts.rng import RowKeys
    from rlcore.contracts.trajectory import Trajectory


class Observation(TypedDict):
    """What a policy sees. The only thing an env and a policy exchange besides actions.

    cameras: `{name: uint8 [B, H, W, 3]}`, upright RGB.
    states: float32 `[B, S]`, in the env's units.
    task_descriptions: B sentences.
    elapsed: float32 `[B]`, elapsed fraction of the episode's time limit (for critics).
    """

    cameras: dict[str, np.ndarray]
    states: np.ndarray
    task_descriptions: list[str]
    elapsed: np.ndarray


def take_rows(observation: Observation, rows: Sequence[int] | np.ndarray) -> Observation:
    """Copy the given rows of an observation, in the given order."""
    index = np.asarray(rows, dtype=np.int64)
    return {
        "cameras": {name: frames[index] for name, frames in observation["cameras"].items()},
        "states": observation["states"][index],
        "task_descriptions": [observation["task_descriptions"][i] for i in index],
        "elapsed": observation["elapsed"][index],
    }


@dataclass
class ChunkResult:
    """The result of one action chunk. Rows whose episode had already ended are all invalid.

    Attributes:
        observation: after the last simulated step of each row: the next one to act on, or the
            final one of an episode that was truncated. Rows that terminated, or were idle, hold
            unspecified pixels (they are not rendered).
        rewards: float32 `[B, C]`, 0 where invalid.
        terminated, truncated: bool `[B, C]`, true at the step that ended the episode.
        valid: bool `[B, C]`, false for steps after the end; these were not simulated.
        success: bool `[B]`, whether the episode has succeeded so far (sticky).
        infos: numbers `[B]` of each row's episode so far, by name; NaN where a row has none. What
            they are when an episode ends is kept of it (`EpisodeOutcome.infos`).
    """

    observation: Observation
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    success: np.ndarray
    infos: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Demonstration:
    """One expert episode of L steps.

    Attributes:
        episode: its address.
        task_description: the sentence.
        frames: `{camera: uint8 [F, H, W, 3]}`, cameras in the order of the env, rendered before
            the steps in `frame_steps`.
        frame_steps: int64 `[F]`, ascending step numbers in [0, L).
        states: float32 `[L, S]`, before each step.
        actions: float32 `[L, A]`: the expert's clean action for that state, clipped to the
            env's range (with action noise the env executed another one).
        success: whether the episode succeeded.
        weight: how often its frames are drawn, relative to those of others.
    """

    episode: Episode
    task_description: str
    frames: Mapping[str, np.ndarray]
    frame_steps: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    success: bool
    weight: float = 1.0


class Env(Protocol):
    """A vector env with gymnasium's vocabulary and `AutoresetMode.DISABLED`.

    Arrays it hands out are the caller's: no later call writes to them. Everything here that can be
    checked is, by :class:`rlcore_testing.EnvConformance`.
    """

    spec: EnvSpec
    num_envs: int

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start episodes. `options["reset_mask"]` bool `[B]` picks the rows (all if absent),
        `options["episodes"]` holds one :class:`Episode` per row (ignored where the mask is
        false). Rows that are not reset keep their last observation. Rows never reset are idle.
        """
        ...

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Make one env step of all rows: actions float32 `[B, A]`. See gymnasium.vector."""
        ...

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        """Make up to C env steps a row: actions float32 `[B, C, A]`. A row stops at its first end.
        Only the frame after the last step is rendered."""
        ...

    def demonstrate(
        self,
        episodes: Sequence[Episode],
        *,
        action_noise: float,
        speed: float,
        stride: int,
        seed: int,
        max_steps: int | None = None,
    ) -> Iterator[Demonstration]:
        """Play expert episodes, each once, in any order. `action_noise`: std of the Gaussian noise
        on executed actions, in units of half of each entry's range, keyed by (seed, episode);
        `speed` in (0, 1] scales motion commands; `stride`: a frame every that many steps;
        `max_steps`: their time limit, None: the env's. Raises UserError where `spec.has_expert` is
        false."""
        ...

    def record(self, rows: Sequence[int]) -> None:
        """Keep every frame of these rows from now on (none: stop), for videos: one after each
        step, and where it is at hand one at the reset."""
        ...

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """Return frames kept since the last call, `{row: [uint8 [H, W, 3], ...]}`; clear them."""
        ...

    def close(self) -> None:
        """Release processes and memory; safe to call twice."""
        ...


class SuspendableEnv(Env, Protocol):
    """An env that can give up what it holds on an accelerator; `spec.suspends` says that it is one.

    While it is suspended nothing but these two and `close` is called. Both are safe to call twice.
    """

    def suspend(self) -> None:
        """Free the accelerator; what is needed to go on stays on the host."""
        ...

    def resume(self) -> None:
        """Go on where the episodes were."""
        ...


Inputs = dict[str, np.ndarray]
"""Per-row arrays a policy made of observations: uint8 images after its resize, states, token
ids. Stored in the trajectory, so they must be all that `act` and `evaluate` need."""


class Policy(Protocol):
    """A policy: acts, re-evaluates what it did, learns from demonstrations.

    Implementations are `torch.nn.Module`s.
    """

    spec: PolicySpec

    def prepare(self, observation: Observation) -> Inputs:
        """Turn an observation into stored inputs; pure, deterministic, batched by row, no
        gradient."""
        ...

    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        """Decide. All randomness comes from `keys` (one generator a row, drawn on the host in a
        fixed shape and order). Runs without gradients."""
        ...

    def evaluate(
        self, inputs: Mapping[str, torch.Tensor], replay: Mapping[str, torch.Tensor]
    ) -> Evaluation:
        """Compute log-probs, values and entropy of stored decisions under the current weights,
        through the same log-prob function as `act`: equal at equal weights."""
        ...

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        """Make training samples of a demonstration at the given frames: inputs, target actions
        float32 `[B, H, A]` in env units from that frame's step on (the last action repeated past
        the end), and a mask `[B, H]`, false past the end."""
        ...

    def sft_loss(
        self,
        inputs: Mapping[str, torch.Tensor],
        actions: torch.Tensor,
        mask: torch.Tensor,
        keys: RowKeys,
    ) -> torch.Tensor:
        """Compute the supervised loss per sample `[B]` (flow matching, cross-entropy), of inputs as
        `prepare` makes them."""
        ...

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        """Set normalisation statistics from demonstrations (before supervised training)."""
        ...

    def parameter_groups(self) -> dict[str, list[torch.nn.Parameter]]:
        """Return the trainable parameters as `{"policy": [...], "value": [...]}`, disjoint."""
        ...

    def set_progress(self, update: int) -> None:
        """Tell the policy how many updates are done (noise annealing)."""
        ...

    def set_checkpointing(self, enabled: bool) -> None:
        """Recompute activations in the backward pass, to save memory. Asked of a policy only where
        its spec has `gradient_checkpointing`."""
        ...

    def blocks(self) -> Sequence[torch.nn.Module]:
        """Return the parts that compute one after the other, such as layers: where parameters are
        sharded among actor processes, one block at a time is whole. Each is called as a module,
        through its `forward`; its weights are not there otherwise. None holds another. Asked of a
        policy only where its spec has `blocks`; others are gathered as a whole."""
        ...

    def set_temperature(self, temperature: float | None) -> None:
        """Sample at this softmax temperature; None: at that of its settings. Asked of a policy only
        where its spec has `temperature`."""
        ...

    def save_pretrained(self, path: Path) -> None:
        """Write weights (safetensors), settings, transforms and statistics: all a load needs."""
        ...


class TakesNoise(Policy, Protocol):
    """A policy that can be given the noise its decisions start from, as a flow can;
    `spec.noise` is its shape."""

    def act(
        self,
        inputs: Inputs,
        keys: RowKeys,
        *,
        deterministic: bool = False,
        noise: np.ndarray | None = None,
    ) -> PolicyOutput:
        """Decide. `noise` float32 `[B, *spec.noise]` stands for that drawn from the keys, which is
        `keys.normal("initial", spec.noise)`."""
        ...


class Learning(Protocol):
    """One update.

    Attributes:
        update: number of updates done before it.
        seed: root of all keys.
        policy: as it is now, without the algorithm's part in acting.
        env: what it acts in.
        networks, lagged: of the algorithm, and their lagged copies, by name.
        rollout: the whole batch; of inputs and replay, what this process holds.
        batch_size: samples of a step, of all processes (`actor.global_batch_size`).
        numbers: of the update's metrics, what is known but by steps; the same on all processes.
        remarks: what a user should know of the updates so far, by cause; may be empty.
    """

    update: int
    seed: int
    policy: Policy
    env: EnvSpec
    networks: Mapping[str, torch.nn.Module]
    lagged: Mapping[str, torch.nn.Module]
    rollout: Trajectory
    batch_size: int
    numbers: dict[str, float]
    remarks: dict[str, str]

    @property
    def replay(self) -> Replay:
        """Empty where the algorithm needs none."""
        ...

    def evaluate(self, rows: torch.Tensor) -> Evaluation:
        """Return what the policy says now of decisions of the rollout, with gradients.

        Args:
            rows: of the rollout's inputs, int64 `[B]`, at least one.
        """
        ...

    def logprobs(self, rows: torch.Tensor, *, reference: bool = False) -> torch.Tensor:
        """Compute log-probs float32 `[B, C, A]` of such decisions without gradients, on the host;
        any number, made in micro-batches. Asked on all processes.

        Args:
            reference: under the weights that training began with; `needs.reference_logprobs` says
                that they are kept.
        """
        ...

    def over_all(self, metrics: Metrics) -> dict[str, float]:
        """Return the numbers of a step's metrics over all processes. Asked on all of them."""
        ...

    def draw(self, count: int, among: Among = "all") -> torch.Tensor:
        """Draw rows of the replay, int64 `[count]`, with replacement; keyed by the update, the
        number of the step that comes next, and the kind. Successes of each task come as often.

        Raises:
            AlgorithmError: there are none.
        """
        ...

    def step(self, rows: torch.Tensor, loss: RowLoss, *, trains: Sequence[str]) -> Step:
        """Return a step on the mean loss of rows of the replay."""
        ...

    def imitation(self, rows: torch.Tensor, keys: RowKeys) -> torch.Tensor:
        """Compute the policy's supervised loss `[B]` of the actions that were executed there."""
        ...


class Algorithm(Protocol):
    """Makes updates out of gradient steps; knows no env and no model.

    needs: what it asks of the rest.
    """

    needs: AlgorithmNeeds

    def updates(self, learning: Learning) -> Iterator[Step]:
        """Yield the steps of one update, each asked for when the one before it is made."""
        ...


class OwnsNetworks(Algorithm, Protocol):
    """An algorithm with networks of its own; `needs.networks` names them."""

    def networks(self, policy: PolicySpec, inputs: Inputs) -> Mapping[str, torch.nn.Module]:
        """Make them, by the names of `needs.networks`, with weights from torch's own generator.

        Args:
            policy: the policy's facts.
            inputs: of one row, as the replay will have them: for names, shapes and dtypes.
        """
        ...


class Acting(Protocol):
    """An algorithm's part in acting."""

    def act(
        self, policy: Policy, inputs: Inputs, keys: RowKeys, *, deterministic: bool
    ) -> PolicyOutput:
        """Decide in the policy's place, as :meth:`Policy.act`: ask it as often as needed, with keys
        made of these, and choose among or change its actions, within the env's range. Each row by
        itself; without gradients. A network that has not learned yet leaves the policy as it is.
        """
        ...


class HasPartInActing(OwnsNetworks, Protocol):
    """An algorithm some of whose networks act (`NetworkNeeds.acts`)."""

    def acting(
        self, policy: PolicySpec, env: EnvSpec, networks: Mapping[str, torch.nn.Module]
    ) -> Acting:
        """Make it, from those networks alone, by name."""
        ...


class Tracker(Protocol):
    """Receives scalars of a run."""

    def log(self, metrics: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...
