"""Define the interfaces of Env, Policy, Algorithm and Tracker that plugins implement.

The env side uses numpy arrays; a policy uses tensors on its device. Legend of shapes, used in all
of rlcore:

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

    from rlcore.contracts.learning import Replay, RowKind, RowLoss, Step
    from rlcore.contracts.metric import Metrics
    from rlcore.contracts.rng import RowKeys
    from rlcore.contracts.trajectory import Trajectory


class Observation(TypedDict):
    """What a policy sees of B rows. Env and policy exchange only observations and actions.

    cameras: `{name: uint8 [B, H, W, 3]}`, upright, RGB.
    states: float32 `[B, S]`, in the env's units.
    task_descriptions: B instructions.
    elapsed: float32 `[B]`, elapsed fraction of the episode's time limit (for critics).
    """

    cameras: dict[str, np.ndarray]
    states: np.ndarray
    task_descriptions: list[str]
    elapsed: np.ndarray


def take_rows(observation: Observation, rows: Sequence[int] | np.ndarray) -> Observation:
    """Return a copy of the given rows of an observation, in the given order."""
    index = np.asarray(rows, dtype=np.int64)
    return {
        "cameras": {name: frames[index] for name, frames in observation["cameras"].items()},
        "states": observation["states"][index],
        "task_descriptions": [observation["task_descriptions"][i] for i in index],
        "elapsed": observation["elapsed"][index],
    }


@dataclass
class ChunkResult:
    """The result of one action chunk in all rows.

    In rows whose episode had ended before the chunk, all steps are invalid.

    Attributes:
        observation: observation after the last simulated step of each row: the one to act on next,
            or the final one of a truncated episode. Rows that terminated or were idle are not
            rendered, so their pixels are arbitrary.
        rewards: float32 `[B, C]`, 0 for invalid steps.
        terminated, truncated: bool `[B, C]`, true at the step that ended the episode.
        valid: bool `[B, C]`, false for steps after the end, which are not simulated.
        success: bool `[B]`, whether the episode has succeeded at any step so far.
        infos: further measurements of each row's current episode so far, `{name: numbers [B]}`; NaN
            if a row has none. The finite values after an episode's last chunk are stored with its
            outcome (`EpisodeOutcome.infos`).
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
        episode: address of the episode.
        instruction: instruction of the episode.
        frames: `{camera: uint8 [F, H, W, 3]}`, in the env's order of cameras, rendered before the
            steps `frame_steps`.
        frame_steps: int64 `[F]`, ascending step numbers in [0, L).
        states: float32 `[L, S]`, before each step.
        actions: float32 `[L, A]`, the expert's action for each state, without noise, clipped to the
            env's range. With action noise, the env executed another action.
        success: whether the episode succeeded.
        weight: how often its frames are drawn, relative to those of other demonstrations.
    """

    episode: Episode
    instruction: str
    frames: Mapping[str, np.ndarray]
    frame_steps: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    success: bool
    weight: float = 1.0


class Env(Protocol):
    """A vector env with gymnasium's vocabulary and `AutoresetMode.DISABLED`.

    The caller owns the arrays that an env returns; no later call writes to them.
    :class:`rlcore_testing.EnvConformance` checks everything here that can be checked.
    """

    spec: EnvSpec
    num_envs: int

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start episodes in some rows, and return the observation of all rows.

        Rows that are not reset keep their last observation. Rows that were never reset are idle.

        Args:
            seed: determines the episodes; ignored if `options` lists them.
            options: `"reset_mask"` is bool `[B]`, the rows to reset (default: all); `"episodes"` is
                a list of one :class:`Episode` per row, ignored in rows that are not reset.

        Returns:
            (observation, infos).
        """
        ...

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Simulate one env step in all rows.

        Args:
            actions: float32 `[B, A]`.

        Returns:
            (observation, rewards, terminated, truncated, infos), as in `gymnasium.vector`.
        """
        ...

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        """Simulate up to C env steps in each row, and render only the frame after the last one.

        A row stops at the end of its episode.

        Args:
            actions: float32 `[B, C, A]`.
        """
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
        """Play each expert episode once, and yield the demonstrations in any order.

        Args:
            episodes: addresses of the episodes.
            action_noise: standard deviation of Gaussian noise on executed actions, in units of half
                the range of each entry. The noise is keyed by (seed, episode).
            speed: scale of motion commands, in (0, 1].
            stride: number of steps from one rendered frame to the next.
            seed: root seed of the noise.
            max_steps: time limit in env steps; None: the limit of the env.

        Raises:
            UserError: `spec.has_expert` is false.
        """
        ...

    def record(self, rows: Sequence[int]) -> None:
        """Record every frame of these rows from now on, for videos; without rows, stop recording.

        An env records one frame after each step and, if it is available, one at the reset.
        """
        ...

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """Return and clear the frames recorded since the last call:
        `{row: [uint8 [H, W, 3], ...]}`."""
        ...

    def close(self) -> None:
        """Release processes and memory. It is safe to call this twice."""
        ...


class SuspendableEnv(Env, Protocol):
    """An env that can free its memory on an accelerator; its `spec.suspends` is true.

    While it is suspended, only `suspend`, `resume` and `close` are called. It is safe to call each
    of them twice in a row.
    """

    def suspend(self) -> None:
        """Free the accelerator's memory. The state that :meth:`resume` needs is stored on the
        host."""
        ...

    def resume(self) -> None:
        """Restore the simulation on the accelerator, with all episodes in the same state."""
        ...


Inputs = dict[str, np.ndarray]
"""Arrays `{name: [B, ...]}` that a policy made from observations: uint8 images after its resizing,
states, token ids. They are stored in the trajectory, so they must contain all that `act` and
`evaluate` need."""


class Policy(Protocol):
    """A policy, which acts, re-evaluates its decisions and learns from demonstrations.

    Implementations are `torch.nn.Module`s.
    """

    spec: PolicySpec

    def prepare(self, observation: Observation) -> Inputs:
        """Convert an observation to inputs, `{name: [B, ...]}`.

        The function is deterministic and has no side effects. Each row of the result depends only
        on the same row of the observation. It needs no gradients.
        """
        ...

    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        """Decide for B rows, without gradients.

        Args:
            inputs: result of :meth:`prepare`.
            keys: the only source of randomness: one generator per row, from which numbers are drawn
                on the host, in a fixed shape and order.
            deterministic: decide without exploration.
        """
        ...

    def evaluate(
        self, inputs: Mapping[str, torch.Tensor], replay: Mapping[str, torch.Tensor]
    ) -> Evaluation:
        """Return log-probs, values and entropy of stored decisions under the current weights.

        The log-probs are computed by the same function as in :meth:`act`, so that they are equal at
        equal weights.

        Args:
            inputs: inputs of the decisions, `{name: [B, ...]}`.
            replay: `PolicyOutput.replay` of the decisions.
        """
        ...

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        """Return training samples of a demonstration.

        Args:
            demonstration: the demonstration.
            frame_index: B indices of its frames.

        Returns:
            Inputs, as from :meth:`prepare`. Target actions float32 `[B, H, A]` in env units, from
            the step of each frame on, where H is the action horizon; past the end, the last action
            is repeated. Mask bool `[B, H]`, false past the end.
        """
        ...

    def sft_loss(
        self,
        inputs: Mapping[str, torch.Tensor],
        actions: torch.Tensor,
        mask: torch.Tensor,
        keys: RowKeys,
    ) -> torch.Tensor:
        """Return the supervised loss of each sample, `[B]` (flow matching, cross-entropy).

        Args:
            inputs: inputs as :meth:`prepare` makes them.
            actions: target actions, float32 `[B, H, A]`.
            mask: bool `[B, H]`, false past the end of the episode.
            keys: source of the loss's randomness.
        """
        ...

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        """Set normalisation statistics from demonstrations; called before supervised training."""
        ...

    def parameter_groups(self) -> dict[str, list[torch.nn.Parameter]]:
        """Return the trainable parameters, `{"policy": [...], "value": [...]}`.

        Each parameter that requires gradients is in exactly one group.
        """
        ...

    def set_progress(self, update: int) -> None:
        """Set the number of updates done, for schedules such as the annealing of noise.

        While the policy learns, it is the number at which the decisions were made.
        """
        ...

    def set_checkpointing(self, enabled: bool) -> None:
        """Set whether activations are recomputed in the backward pass, which saves memory.

        Called only if `spec.has_checkpointing` is true.
        """
        ...

    def blocks(self) -> Sequence[torch.nn.Module]:
        """Return the modules that compute one after another, such as layers.

        If parameters are sharded among actor processes, they are gathered one block at a time.
        The policy must call each block as a module, because its weights are available only within
        its `forward`. No block contains another. Called only if `spec.has_blocks` is true; any
        other policy is gathered as a whole.
        """
        ...

    def set_temperature(self, temperature: float | None) -> None:
        """Set the softmax temperature of sampling; None: the temperature of the settings.

        Called only if `spec.has_temperature` is true.
        """
        ...

    def save_pretrained(self, path: Path) -> None:
        """Write all files that loading the policy needs: weights (safetensors), settings,
        transforms and statistics."""
        ...


class NoisePolicy(Policy, Protocol):
    """A policy to which the caller can give the noise from which its decisions start, such as a
    flow. The shape of the noise of a row is `spec.noise_shape`."""

    def act(
        self,
        inputs: Inputs,
        keys: RowKeys,
        *,
        deterministic: bool = False,
        noise: np.ndarray | None = None,
    ) -> PolicyOutput:
        """Decide as :meth:`Policy.act`.

        Args:
            inputs, keys, deterministic: see :meth:`Policy.act`.
            noise: initial noise, float32 `[B, *spec.noise_shape]`; None: it is drawn as
                `keys.normal("initial", spec.noise_shape)`.
        """
        ...


class SamplingPolicy(Policy, Protocol):
    """A policy that can make several decisions for each row of inputs, which it encodes once."""

    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        """Decide S times for each of B rows.

        The result equals, up to rounding, that of :meth:`Policy.act` for inputs repeated S times.

        Args:
            inputs: result of :meth:`prepare` for B rows.
            keys: S B keys, sample by sample: key s B + b is that of decision s of row b.
            deterministic: decide without exploration.

        Returns:
            S B decisions, in the order of the keys.
        """
        ...


class ReparameterizedPolicy(Policy, Protocol):
    """A policy whose sampled actions have gradients with respect to its parameters, because they
    are a differentiable function of independent noise (Kingma and Welling 2014, arXiv
    1312.6114)."""

    def sample(
        self, inputs: Mapping[str, torch.Tensor], keys: RowKeys
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Decide for B rows, with gradients.

        At equal keys, actions and log-probs equal those of :meth:`Policy.act`.

        Args:
            inputs: inputs as :meth:`prepare` makes them, `{name: [B, ...]}`.
            keys: the only source of randomness, one generator per row.

        Returns:
            Actions float32 `[B, C, A]` in the env's units, and the log-prob of each action entry,
            float32 `[B, C, A]`, on the policy's device.
        """
        ...


class EncodingPolicy(Policy, Protocol):
    """A policy that lets the critics of an algorithm see what it sees; `spec.feature_size` is F."""

    def frozen_encoder(self) -> torch.nn.Module:
        """Return a copy, with the current weights, of the part that reads the inputs.

        No parameter of the copy requires gradients. Called with inputs as :meth:`prepare` makes
        them, tensors `{name: [B, ...]}`, the copy returns pooled features, float32 `[B, F]`, on its
        device; each row depends on the same row of the inputs alone.
        """
        ...


class Learning(Protocol):
    """What an algorithm can use in one update.

    "All processes" are the actor processes. A method that must be called on all processes waits for
    the others.

    Attributes:
        update: number of updates done before this one.
        total_updates: number of updates after which the run ends (`runner.max_epochs`), for
            schedules; None: there is no limit. `needs.limited_updates` excludes None.
        seed: root seed of all keys.
        policy: the policy with its current weights, without the algorithm's part in acting.
        env: spec of the env in which the policy acts.
        networks, target_networks: the algorithm's networks and their target networks, by name.
        rollout: arrays `[T, N, ...]` of the whole rollout, and `inputs` and `replay` of the
            decisions that this process holds.
        batch_size: number of samples of a step over all processes (`actor.global_batch_size`).
        statistics: metrics of the update that do not come from its steps; set by the algorithm to
            the same values on all processes.
        lr_factors: factors on the scheduled learning rates of "policy" and "value", from the next
            step on; 1 for a group without an entry. The algorithm may change them, equally on all
            processes; they are kept from update to update and in checkpoints. Those set during the
            warm-up of `actor.optim` are dropped.
        warnings: what the user should know about the updates so far, by cause; may be empty.
    """

    update: int
    total_updates: int | None
    seed: int
    policy: Policy
    env: EnvSpec
    networks: Mapping[str, torch.nn.Module]
    target_networks: Mapping[str, torch.nn.Module]
    rollout: Trajectory
    batch_size: int
    statistics: dict[str, float]
    lr_factors: dict[str, float]
    warnings: dict[str, str]

    @property
    def replay(self) -> Replay:
        """Return the replay; it is empty if the algorithm needs none."""
        ...

    def evaluate(self, rows: torch.Tensor) -> Evaluation:
        """Re-evaluate decisions of the rollout under the current weights, with gradients.

        Args:
            rows: row numbers of `rollout.inputs`, int64 `[B]`, B >= 1.
        """
        ...

    def logprobs(self, rows: torch.Tensor, *, reference: bool = False) -> torch.Tensor:
        """Return log-probs of decisions of the rollout, float32 `[B, C, A]` on the host.

        They are computed in micro-batches, without gradients. Must be called on all processes.

        Args:
            rows: row numbers of `rollout.inputs`, int64 `[B]`; B may be 0 and may differ between
                processes.
            reference: compute them under the weights at the start of training, which are stored
                only if `needs.reference_logprobs` is true.
        """
        ...

    def all_reduce(self, metrics: Metrics) -> dict[str, float]:
        """Return the values of a step's metrics, merged over all processes. Must be called on all
        processes."""
        ...

    def sample(self, count: int, among: RowKind = "all") -> torch.Tensor:
        """Draw rows of the replay with replacement, int64 `[count]`; the same on all processes.

        The draw is keyed by the update, the number of calls of :meth:`step` in it so far, and
        `among`, so equal calls before the same step return equal rows. Successes are balanced
        across tasks.

        Raises:
            AlgorithmError: the replay has no rows of that kind.
        """
        ...

    def step(self, rows: torch.Tensor, loss: RowLoss, *, trains: Sequence[str]) -> Step:
        """Return a step on the mean loss of rows of the replay.

        Args:
            rows: int64, rows of all processes; each process computes the losses of those that it
                holds.
            loss: see :data:`rlcore.contracts.learning.RowLoss`.
            trains: parameter groups that the step changes, at least one; the first one names the
                step in metrics.
        """
        ...

    def imitation_loss(self, rows: torch.Tensor, keys: RowKeys) -> torch.Tensor:
        """Return the policy's supervised loss `[B]` of the actions that were executed from rows of
        the replay on (:meth:`rlcore.contracts.learning.Replay.action_targets`)."""
        ...


class Algorithm(Protocol):
    """An algorithm, which makes updates from gradient steps. It depends on no env and no model.

    needs: requirements of the algorithm.
    """

    needs: AlgorithmNeeds

    def updates(self, learning: Learning) -> Iterator[Step]:
        """Yield the steps of one update; each step is made before the next one is requested."""
        ...


class NetworkAlgorithm(Algorithm, Protocol):
    """An algorithm that has networks besides the policy; `needs.networks` lists them."""

    def networks(self, policy: PolicySpec, inputs: Inputs) -> Mapping[str, torch.nn.Module]:
        """Return new networks, by the names in `needs.networks`, without those that encode.

        Initial weights come from torch's global generator, which is seeded before the call.

        Args:
            policy: spec of the policy.
            inputs: inputs of one row as the replay has them, for names, shapes and dtypes.
        """
        ...


class ActingHead(Protocol):
    """The part of an algorithm that takes part in acting."""

    def act(
        self, policy: Policy, inputs: Inputs, keys: RowKeys, *, deterministic: bool
    ) -> PolicyOutput:
        """Decide in place of the policy, with the arguments and the result of :meth:`Policy.act`.

        The implementation may call the policy several times, with keys derived from these, and may
        choose among its actions or change them within the env's range. Each row must be computed
        independently of the others, without gradients. Untrained networks must leave the policy's
        decisions unchanged.
        """
        ...


class ActingAlgorithm(NetworkAlgorithm, Protocol):
    """An algorithm with networks that take part in acting (`NetworkNeeds.acts_with`)."""

    def acting_head(
        self, policy: PolicySpec, env: EnvSpec, networks: Mapping[str, torch.nn.Module]
    ) -> ActingHead:
        """Return the algorithm's part in acting.

        Args:
            policy: spec of the policy.
            env: spec of the env.
            networks: the networks that act, by name; the result may use no others.
        """
        ...


class Tracker(Protocol):
    """A destination for the scalar metrics of a run."""

    def log(self, metrics: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...
