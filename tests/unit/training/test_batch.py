"""Groups within bounds, by hand. Whole updates are in tests/e2e/test_groups.py."""

from __future__ import annotations

import pytest

from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.specs import Episode, GroupFilter
from rlcore.rollout.schedule import Column
from rlcore.training.batch import within_bounds


def played(*returns: list[float]) -> tuple[list[Column], list[EpisodeOutcome]]:
    """Return a group for each list: a column for each return, interleaved, numbered from 10."""
    episodes = [
        (Episode(task=0, trial=group, replica=replica, group=group), score)
        for group, scores in enumerate(returns)
        for replica, score in enumerate(scores)
    ]
    episodes.sort(key=lambda pair: pair[0].replica)
    columns = [Column(number, (episode,)) for number, (episode, _) in enumerate(episodes, 10)]
    return columns, [EpisodeOutcome(e, score > 0, score, 5) for e, score in episodes]


@pytest.mark.parametrize(
    ("low", "high", "groups"),
    [
        (0.1, 0.9, {1}),
        (0.5, 1.0, {1, 2}),  # bounds belong to it: means are 0, 0.5 and 1
        (0.0, 0.49, {0}),
        (0.6, 0.9, set()),
    ],
)
def test_groups_within_bounds(low: float, high: float, groups: set[int]):
    columns, outcomes = played([0.0, 0.0], [0.0, 1.0], [1.0, 1.0])
    stay = within_bounds(columns, outcomes, GroupFilter(low, high))
    assert {column.episodes[0].group for column in columns if column.number in stay} == groups
    assert len(stay) == 2 * len(groups)


def test_the_first_episode_of_a_column_counts():
    """With auto_reset a column continues; only its first episode counts for the group."""
    first = Episode(0, 7, 0, 0)
    later = Episode(1, 9, 0, 0)
    other = Episode(0, 7, 1, 0)
    then = Episode(1, 9, 1, 0)
    columns = [Column(0, (first, later)), Column(1, (other, then))]
    returns = {first: 0.0, later: 5.0, other: 1.0, then: 5.0}
    outcomes = [
        EpisodeOutcome(e, False, score, 3, finished=e != then) for e, score in returns.items()
    ]
    assert within_bounds(columns, outcomes, GroupFilter(0.5, 0.5)) == {0, 1}
