"""Group-relative advantages by hand, and batches whose groups are not whole."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_policy_gradient.group_relative import episode_scores, group_relative
from rlcore_testing.conformance.trajectories import random_trajectory, reordered

from rlcore.contracts.errors import ConfigError, WorkerError
from rlcore.contracts.specs import GroupFilter


def grouped(scores, *, group_size):
    """One chunk per column with the given return spread over its first two actions."""
    trajectory = random_trajectory(chunks=2, columns=len(scores), group_size=group_size)
    for array in (
        trajectory.rewards,
        trajectory.valid,
        trajectory.terminated,
        trajectory.truncated,
        trajectory.episode,
    ):
        array.zero_()
    trajectory.valid[0, :, :2] = True
    trajectory.terminated[0, :, 1] = True
    for n, score in enumerate(scores):
        trajectory.rewards[0, n] = torch.tensor([score - 1.0, 1.0, 100.0])
    return trajectory


def test_group_relative_by_hand():
    # group 0: 1, 3 -> mean 2, std sqrt((1 + 1) / 1) = sqrt 2;  group 1: 5, 5 -> 0
    trajectory = grouped([1, 3, 5, 5], group_size=2)
    assert episode_scores(trajectory).tolist() == [1, 3, 5, 5]
    result = group_relative(trajectory, group_size=2)
    expected = np.array([-1, 1, 0, 0]) / (np.sqrt(2) + 1e-6)
    np.testing.assert_allclose(result.advantages[0, :, 0].numpy(), expected, rtol=1e-6)
    assert result.advantages[1].abs().sum() == 0 and result.returns.shape == (2, 4, 0)
    # "subtract the mean" alone
    plain = group_relative(trajectory, group_size=2, divide_by_std=False).advantages[0, :, 0]
    assert plain.tolist() == [-1, 1, 0, 0]


def test_a_group_of_four_by_hand():
    # 0, 0, 1, 3: mean 1, squares 1 + 1 + 0 + 4 = 6 over 3: std sqrt 2
    result = group_relative(grouped([0, 0, 1, 3], group_size=4), group_size=4)
    expected = np.array([-1, -1, 0, 2]) / (np.sqrt(2) + 1e-6)
    np.testing.assert_allclose(result.advantages[0, :, 0].numpy(), expected, rtol=1e-6)


def test_it_is_normalised_over_the_columns_of_a_group_wherever_they_stand():
    """Groups side by side, interleaved, and reversed: a column keeps its advantage."""
    trajectory = grouped([1, 3, 10, 40, 7, 7], group_size=2)
    expected = group_relative(trajectory, group_size=2).advantages
    for order in ([0, 2, 4, 1, 3, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]):
        index = torch.tensor(order)
        moved = group_relative(reordered(trajectory, index), group_size=2).advantages
        assert torch.equal(moved, expected[:, index])


def test_a_group_of_one_learns_nothing():
    result = group_relative(grouped([1, 3], group_size=1), group_size=1)
    assert result.advantages.abs().sum() == 0


def test_filtered_groups_are_invalid():
    # means 2, 5, 0, 1: the first and the last lie in [1, 2], bounds included
    trajectory = grouped([1, 3, 5, 5, 0, 0, 0, 2], group_size=2)
    result = group_relative(trajectory, group_size=2, bounds=GroupFilter(1.0, 2.0))
    assert result.valid[0, :, 0].tolist() == [True, True, *[False] * 4, True, True]
    assert result.advantages[0, 2:6].abs().sum() == 0
    assert result.advantages[0, 6:, 0].tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_auto_reset_counts_the_first_episode_only():
    trajectory = grouped([1, 3], group_size=2)
    trajectory.valid[1], trajectory.rewards[1], trajectory.episode[1] = True, 50.0, 1
    result = group_relative(trajectory, group_size=2)
    assert episode_scores(trajectory).tolist() == [1, 3]
    assert not result.valid[1].any() and result.advantages[1].abs().sum() == 0


def test_groups_are_required(refused):
    with refused(ConfigError, "groups"):
        group_relative(random_trajectory(), group_size=2)


def lost(trajectory):
    """Column 5 is gone."""
    return reordered(trajectory, torch.tensor([0, 1, 2, 3, 4, 6, 7]))


def crashed(trajectory):
    """Column 5 is there, but nothing was played in it."""
    valid = trajectory.valid.clone()
    valid[:, 5] = False
    return replace(trajectory, valid=valid)


def changed(name, value):
    def change(trajectory):
        array = getattr(trajectory, name).clone()
        array[:, 5] = value
        return replace(trajectory, **{name: array})

    return change


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lost, ["group 1", "3 episodes", "1 starts", "3 replicas"]),
        (crashed, ["group 1", "3 episodes"]),
        (changed("trial", 0), ["group 1", "4 episodes", "2 starts"]),
        (changed("task", 3), ["group 1", "4 episodes", "2 starts"]),
        (changed("replica", 0), ["group 1", "4 episodes", "1 starts", "3 replicas"]),
        (changed("group", 0), ["group 0", "5 episodes"]),
    ],
    ids=["lost", "crashed", "trial", "task", "replica", "group"],
)
def test_a_batch_whose_groups_are_not_whole_is_refused(refused, damage, words):
    trajectory = random_trajectory(columns=8, group_size=4)
    group_relative(trajectory, group_size=4)
    with refused(WorkerError, *words):
        group_relative(damage(trajectory), group_size=4)
