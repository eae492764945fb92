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
    rewards, valid = np.zeros(shape, np.float32), np.zeros(shape, bool)
    terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
    logprobs = np.zeros((*shape, entries), np.float32)
    values = np.zeros((chunks, columns, value_width), np.float32)
    bootstrap = np.zeros_like(values)
    episode, index = np.zeros(shape[:2], np.int64), np.full(shape[:2], -1)
    success = np.zeros(shape[:2], bool)
    decisions = 0
    for n in range(columns):
        over = False
        for t in range(chunks):
            if t and (terminated | truncated)[t - 1, n].any():
                over = not auto_reset
                episode[t:, n] += 1 if auto_reset else 0
            if over:
                continue
            index[t, n] = decisions
            decisions += 1
            logprobs[t, n] = random.normal(size=(actions, entries))
            values[t, n] = random.normal(size=value_width)
            for c in range(actions):
                valid[t, n, c] = True
                rewards[t, n, c] = random.normal()
                draw = random.random()
                if draw < 0.06:
                    terminated[t, n, c] = success[t, n] = True
                elif draw < 0.12:
                    truncated[t, n, c] = True
                if draw < 0.12:
                    break
            ended = (terminated | truncated)[t, n].any()
            if truncated[t, n].any() or (t == chunks - 1 and not ended):
                bootstrap[t, n] = random.normal(size=value_width)
    group = np.arange(columns) // group_size if group_size else np.full(columns, -1)
    number = np.arange(columns)
    trial, replica = (group, number % group_size) if group_size else (number, 0 * number)

    def by_column(array: np.ndarray) -> torch.Tensor:
        return tensor(np.broadcast_to(array, shape[:2]).astype(np.int64))

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array))

    return Trajectory(
        rewards=tensor(rewards),
        valid=tensor(valid),
        terminated=tensor(terminated),
        truncated=tensor(truncated),
        actions=tensor(np.tanh(logprobs)),
        logprobs=tensor(logprobs),
        values=tensor(values),
        bootstrap_values=tensor(bootstrap),
        task=tensor(np.zeros(shape[:2], np.int64)),
        trial=by_column(trial),
        replica=by_column(replica),
        group=by_column(group),
        episode=tensor(episode),
        policy_version=tensor(np.zeros(shape[:2], np.int64)),
        success=tensor(success),
        sample_index=tensor(index.astype(np.int64)),
        inputs={"features": tensor(random.normal(size=(decisions, 4)).astype(np.float32))},
        replay={"action": tensor(random.normal(size=(decisions, actions, entries)))},
    )


def padded(trajectory: Trajectory, *, chunks: int, columns: int) -> Trajectory:
    """Return the trajectory with idle chunks and columns appended; these columns form a group."""
    before = trajectory.valid.shape[:2]

    def grown(array: Tensor, fill: int) -> Tensor:
        result = array.new_full((before[0] + chunks, before[1] + columns, *array.shape[2:]), fill)
        result[: before[0], : before[1]] = array
        return result

    grouped = int(trajectory.group.min()) >= 0
    fill = {"sample_index": -1, "group": int(trajectory.group.max()) + 1 if grouped else -1}
    arrays: dict[str, Any] = {
        name: grown(getattr(trajectory, name), fill.get(name, 0)) for name in BY_PLACE
    }
    for name in (
        "task",
        "trial",
        "replica",
        "group",
        "episode",
    ):  # idle chunks have their column's episode
        arrays[name][before[0] :, : before[1]] = arrays[name][before[0] - 1, : before[1]]
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
        noise: dict[str, Any] = {"starts_from_noise": True, "noise": (1, 1)}
        self.spec = PolicySpec(
            "bandit", 0, 1, 1, 1, 1, value_dim=values, sft_objective="squares", **noise
        )
        self.mean, self.value = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(values))

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
            action, replay = torch.from_numpy(output.actions), output.replay
        logprobs = policy.evaluate({}, {"action": action}).logprobs
    flags = torch.zeros(1, columns, 1, dtype=torch.bool)
    zero = torch.zeros(1, columns, dtype=torch.int64)
    number = torch.arange(columns)[None]
    value = policy.value.detach().expand(1, columns, -1).clone()
    return Trajectory(
        rewards=(-0.5 * (action - 1).square()).exp().view(1, columns, 1),
        valid=~flags,
        terminated=~flags,
        truncated=flags,
        actions=action.view(1, columns, 1, 1),
        logprobs=logprobs.view(1, columns, 1, 1),
        values=value,
        bootstrap_values=torch.zeros_like(value),
        task=zero,
        trial=number // group_size if group_size else number,
        replica=number % group_size if group_size else zero,
        group=number // group_size if group_size else zero - 1,
        episode=zero,
        policy_version=zero,
        success=((action - 1).abs() < 1).view(1, columns),
        sample_index=number,
        inputs={"features": torch.ones(columns, 1)},
        replay=replay,
    )


def bandit_inputs(rows: int) -> Inputs:
    """Return the bandit's inputs, which are the same for every decision."""
    return {"features": np.ones((rows, 1), np.float32)}
