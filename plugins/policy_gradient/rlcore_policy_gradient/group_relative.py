"""Compute advantages relative to a group of episodes with the same start. Pure tensor functions.

Legend: T chunks, N columns, C actions per chunk. A group is a set of columns whose first episodes
have the same (task, trial) and different replicas.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor

from rlcore.contracts.errors import ConfigError, WorkerError
from rlcore.contracts.specs import GroupFilter
from rlcore.contracts.trajectory import Trajectory
from rlcore_policy_gradient.minibatch import Advantages

GROUP_EPS = 1e-6


def episode_scores(trajectory: Trajectory) -> Tensor:
    """Return the undiscounted return of the first episode of each column: float64 `[N]`."""
    counted = trajectory.valid & (trajectory.episode == 0).unsqueeze(-1)
    return torch.where(counted, trajectory.rewards, 0.0).double().sum((0, 2))


def group_relative(
    trajectory: Trajectory,
    *,
    group_size: int,
    divide_by_std: bool = True,
    bounds: GroupFilter | None = None,
) -> Advantages:
    """Return group-relative advantages (Shao et al. 2024, arXiv 2402.03300, section 4.1).

        A_i = (s_i - mean_G s) / (std_G s + 1e-6)        std with n - 1

    over the columns of a group. Every valid action of the column's first episode gets A_i; later
    episodes (auto_reset) are not trained on.

    Args:
        trajectory: the whole batch, with all members of each group.
        group_size: G.
        divide_by_std: false subtracts the mean only (Liu et al. 2025, arXiv 2503.20783).
        bounds: train only on groups whose mean score is within these bounds. The columns of other
            groups become invalid, so they do not count in the weights of the loss either.

    Raises:
        ConfigError: a column with executed actions has no group.
        WorkerError: see :func:`require_whole_groups`.
    """
    require_whole_groups(trajectory, group_size)
    groups, member = torch.unique(trajectory.group[0], return_inverse=True)
    scores = episode_scores(trajectory)
    has_actions = _has_actions(trajectory)

    def group_sum(x: Tensor) -> Tensor:  # [N] -> [N], the sum over the group of each column
        zeros = torch.zeros(len(groups), dtype=torch.float64)
        return zeros.index_add(0, member, torch.where(has_actions, x, 0.0))[member]

    mean = group_sum(scores) / group_size
    advantage = scores - mean
    if divide_by_std:
        variance = group_sum(advantage.square()) / max(group_size - 1, 1)
        advantage = advantage / (variance.sqrt() + GROUP_EPS)
    trained = has_actions
    if bounds is not None:
        trained = has_actions & (mean >= bounds.low) & (mean <= bounds.high)
    first = trajectory.episode == 0
    valid = trajectory.valid & (first & trained).unsqueeze(-1)
    chunk_valid = valid.any(-1, keepdim=True)
    advantages = torch.where(chunk_valid, advantage.float()[None, :, None], 0.0)
    no_values = advantages.new_zeros((*advantages.shape[:2], 0))
    return Advantages(advantages, no_values, valid)


def require_whole_groups(trajectory: Trajectory, group_size: int) -> None:
    """Refuse a batch in which a group lacks members, has too many, or mixes starts.

    The mean of such a group would be wrong without any other sign of it. Columns without executed
    actions are ignored.

    Raises:
        ConfigError: a column with executed actions has no group.
        WorkerError: a group does not have `group_size` different replicas of one start.
    """
    names = ("group", "task", "trial", "replica")
    addresses = torch.stack([getattr(trajectory, name)[0] for name in names], dim=1)
    groups: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for group, *address in addresses[_has_actions(trajectory)].tolist():
        groups[group].append(tuple(address))
    if any(group < 0 for group in groups):
        raise ConfigError(
            "group-relative advantages need groups, but some episodes belong to none",
            hint="set algorithm.group_size to 2 or more",
        )
    for group, members in groups.items():
        starts = {(task, trial) for task, trial, _ in members}
        replicas = {replica for _, _, replica in members}
        if len(members) != group_size or len(replicas) != group_size or len(starts) > 1:
            raise WorkerError(
                f"group {group} is not whole: {len(members)} episodes of {len(starts)} starts and "
                f"{len(replicas)} replicas, expected {group_size} replicas of one start; (task, "
                f"trial, replica): {sorted(members)}"
            )


def _has_actions(trajectory: Trajectory) -> Tensor:
    """Return a mask bool `[N]`: columns with at least one executed action."""
    return trajectory.valid.any(-1).any(0)
