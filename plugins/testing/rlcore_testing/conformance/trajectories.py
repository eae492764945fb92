"""Make trajectories without an env: random, padded with idle places, reordered, and of a bandit."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rlcore.contracts.protocols import Evaluation, Inputs, Observation, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import PolicySpec
from rlcore.contracts.trajectory import Trajectory

BY_PLACE = [f.name for f in fields(Trajectory) if f.name not in ("inputs", "replay")]
"""Names of a trajectory's arrays `[T, N, ...]`."""
BY_COLUMN = ("task", "trial", "replica", "group", "episode")
"""Names of those that idle chunks have of their column."""


def random_trajectory(
    *,
    chunks: int = 6,
    columns: int = 5,
    actions: int = 3,
    entries: int = 2,
    value_width: int = 1,
    auto_reset: bool = False,
    group_size: int = 0,
    seed: int = 0,
) -> Trajectory:
    """Return a random trajectory whose episodes terminate or are truncated inside chunks.

    Inputs are 4 random features per decision; the replay holds random actions.

    Args:
        chunks, columns, actions, entries: T, N, C and A.
        value_width: V.
        auto_reset: the chunk after an end starts a new episode; otherwise the column is idle.
        group_size: number of adjacent columns in a group; 0: no groups.
    """
    random = np.random.default_rng(seed)
    shape = (chunks, columns, actions)
    draws = random.random((columns, chunks, actions)).swapaxes(0, 1)
    ends = draws < 0.12
    ended = ends.any(-1)
    earlier: np.ndarray = np.cumsum(ended, axis=0) - ended  # ended chunks before this one
    decided = np.full(ended.shape, True) if auto_reset else earlier == 0
    valid = decided[..., None] & (np.cumsum(ends, axis=-1) - ends == 0)
    terminated = valid & (draws < 0.06)
    truncated = valid & ends & ~terminated
    decisions = int(decided.sum())
    index = np.full(ended.shape, -1)
    index.T[decided.T] = np.arange(decisions)  # numbered column by column
    values, bootstrap = random.normal(size=(2, chunks, columns, value_width)).astype(np.float32)
    logprobs = random.normal(size=(*shape, entries)).astype(np.float32) * decided[..., None, None]
    goes_on = decided & ~ended & (np.arange(chunks)[:, None] == chunks - 1)
    bootstrapped = truncated.any(-1) | goes_on
    number = np.arange(columns)
    zeros = np.zeros(shape[:2], np.int64)
    group = number // group_size if group_size else np.full(columns, -1)
    arrays = {
        "rewards": (random.normal(size=shape) * valid).astype(np.float32),
        "valid": valid,
        "terminated": terminated,
        "truncated": truncated,
        "actions": np.tanh(logprobs),
        "logprobs": logprobs,
        "values": values * decided[..., None],
        "bootstrap_values": bootstrap * bootstrapped[..., None],
        "task": zeros,
        "trial": zeros + (group if group_size else number),
        "replica": zeros + (number % group_size if group_size else 0),
        "group": zeros + group,
        "episode": earlier if auto_reset else zeros,
        "policy_version": zeros,
        "success": terminated.any(-1),
        "sample_index": index,
    }
    features = random.normal(size=(decisions, 4)).astype(np.float32)
    replay = random.normal(size=(decisions, actions, entries))
    return Trajectory(
        **{name: torch.from_numpy(array.copy()) for name, array in arrays.items()},
        inputs={"features": torch.from_numpy(features)},
        replay={"action": torch.from_numpy(replay)},
    )


def padded(trajectory: Trajectory, *, chunks: int, columns: int) -> Trajectory:
    """Return the trajectory with idle chunks and columns appended; these columns form a group."""
    before = trajectory.valid.shape[:2]

    def grown(name: str, fill: int) -> Tensor:
        array = getattr(trajectory, name)
        result = array.new_full((before[0] + chunks, before[1] + columns, *array.shape[2:]), fill)
        result[: before[0], : before[1]] = array
        if name in BY_COLUMN:
            result[before[0] :, : before[1]] = array[-1]
        return result

    grouped = int(trajectory.group.min()) >= 0
    fill = {"sample_index": -1, "group": int(trajectory.group.max()) + 1 if grouped else -1}
    arrays: dict[str, Any] = {name: grown(name, fill.get(name, 0)) for name in BY_PLACE}
    return replace(trajectory, **arrays)


def reordered(trajectory: Trajectory, order: Tensor) -> Trajectory:
    """Return the trajectory with its columns in another order, int64 `[N]`."""
    moved: dict[str, Any] = {name: getattr(trajectory, name)[:, order] for name in BY_PLACE}
    return replace(trajectory, **moved)


class Bandit(nn.Module):
    """A policy of one Gaussian action per decision and a value, both independent of the input.

    As in a flow policy, the initial noise can be passed to `act`, and deterministic actions have
    it, too.

    Args:
        values: V, 0 or 1.
    """

    def __init__(self, values: int = 1) -> None:
        super().__init__()
        self.spec = PolicySpec(
            name="bandit",
            num_images=0,
            state_dim=1,
            action_dim=1,
            num_action_chunks=1,
            action_horizon=1,
            value_dim=values,
            sft_objective="squares",
            starts_from_noise=True,
            noise_shape=(1, 1),
            reparameterized=True,
        )
        self.mean = nn.Parameter(torch.zeros(1))
        self.value = nn.Parameter(torch.zeros(values))

    def evaluate(self, inputs: dict[str, Tensor], replay: dict[str, Tensor]) -> Evaluation:
        logprobs = -0.5 * (replay["action"] - self.mean).square()
        rows = len(logprobs)
        return Evaluation(logprobs, self.value.expand(rows, -1), torch.ones(rows, 1, 1))

    def prepare(self, observation: Observation) -> Inputs:
        return {"features": observation["states"]}

    @torch.no_grad()
    def act(
        self,
        inputs: Inputs,
        keys: RowKeys,
        *,
        deterministic: bool = False,
        noise: np.ndarray | None = None,
    ) -> PolicyOutput:
        drawn = torch.from_numpy(keys.normal("initial", (1, 1)) if noise is None else noise)
        action = self.mean + drawn
        replay = {"action": action}
        now = self.evaluate({}, replay)
        logprobs = now.logprobs * (not deterministic)
        return PolicyOutput(action.numpy(), logprobs, now.values, replay)

    def sample(self, inputs: dict[str, Tensor], keys: RowKeys) -> tuple[Tensor, Tensor]:
        action = self.mean + torch.from_numpy(keys.normal("initial", (1, 1)))
        return action, self.evaluate({}, {"action": action}).logprobs

    def save_pretrained(self, path: Path) -> None:
        save_file(dict(self.state_dict()), path / "bandit.safetensors")

    def sft_loss(
        self, inputs: dict[str, Tensor], actions: Tensor, mask: Tensor, keys: RowKeys
    ) -> Tensor:
        return (actions - self.mean).square().mean((1, 2))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"policy": [self.mean], "value": [self.value] if len(self.value) else []}


def bandit_rollout(
    policy: Bandit,
    seed: int,
    columns: int = 64,
    group_size: int = 0,
    actor: Policy | None = None,
) -> Trajectory:
    """Return a rollout with one decision per column and reward exp(-(a - 1)^2 / 2), in (0, 1].

    Rewards in that range fit the usual bounds of filters. Actions within 1 of the best, 1, are
    successes: about half of an untrained bandit's, and 0.68 of those around 1.

    Args:
        seed: seed of the noise.
        actor: policy that decides in place of the bandit.
    """
    noise = torch.randn(columns, 1, 1, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        action = policy.mean + noise
        replay = {"action": action}
        if actor is not None:
            keys = RowKeys(tuple((seed, column) for column in range(columns)))
            output = actor.act(bandit_inputs(columns), keys)
            action = torch.from_numpy(output.actions)
            replay = output.replay
        logprobs = policy.evaluate({}, {"action": action}).logprobs
    value = policy.value.detach().expand(1, columns, -1).clone()
    trajectory = random_trajectory(
        chunks=1, columns=columns, actions=1, entries=1, group_size=group_size
    )
    return replace(
        trajectory,
        rewards=(-0.5 * (action - 1).square()).exp().view(1, columns, 1),
        terminated=trajectory.valid,  # after one step
        truncated=~trajectory.valid,
        actions=action.view(1, columns, 1, 1),
        logprobs=logprobs.view(1, columns, 1, 1),
        values=value,
        bootstrap_values=torch.zeros_like(value),
        success=((action - 1).abs() < 1).view(1, columns),
        inputs={"features": torch.ones(columns, 1)},
        replay=replay,
    )


def bandit_inputs(rows: int) -> Inputs:
    """Return the bandit's inputs, which are the same for every decision."""
    return {"features": np.ones((rows, 1), np.float32)}
