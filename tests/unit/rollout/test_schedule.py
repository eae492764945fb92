from collections import Counter
from dataclasses import replace

import pytest
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.config.schema import RunnerConfig, VideoConfig
from rlcore.contracts.specs import Episode
from rlcore.rollout.schedule import (
    Column,
    DemonstratedStarts,
    deal,
    evaluation_columns,
    filmed_columns,
    training_columns,
)


def toy(**changes):
    config = ToyEnvConfig(env_type="toy", **changes)
    return env_spec(config), config


def test_evaluation_visits_every_task_and_trial_once():
    spec, config = toy(split="heldout", trials_per_task=5)
    columns = evaluation_columns(spec, config)
    pairs = [(c.episodes[0].task, c.episodes[0].trial) for c in columns]
    assert pairs == [(task, trial) for task in range(4) for trial in range(1000, 1005)]
    assert [c.number for c in columns] == list(range(20))


def test_training_balances_tasks_and_stays_in_its_split():
    spec, config = toy(total_num_envs=6, rollout_epoch=2)
    columns = training_columns(spec, config, seed=3, update=0, num_action_chunks=2)
    assert len(columns) == 12
    counts = Counter(c.episodes[0].task for c in columns)
    assert set(counts.values()) == {3}  # 12 columns over 4 tasks
    assert all(c.episodes[0].trial in spec.train_trials for c in columns)
    assert [c.episodes for c in columns] == sorted(c.episodes for c in columns)


def drawn_tasks(weights, groups=40, seed=3):
    spec, config = toy(total_num_envs=groups)
    settings = {"seed": seed, "update": 0, "num_action_chunks": 2, "weights": weights}
    return [c.episodes[0] for c in training_columns(spec, config, **settings)]


def test_passes_of_an_evaluation_share_their_starts():
    spec, config = toy(trials_per_task=2, rollout_epoch=3, split="heldout")
    episodes = [column.episodes[0] for column in evaluation_columns(spec, config)]
    assert episodes == sorted(set(episodes)) and len(episodes) == len(spec.tasks) * 2 * 3
    starts = Counter((e.task, e.trial) for e in episodes)
    assert set(starts.values()) == {3} and {e.replica for e in episodes} == {0, 1, 2}
    once = evaluation_columns(*toy(trials_per_task=2, split="heldout"))
    assert [column.episodes[0] for column in once] == [e for e in episodes if e.replica == 0]


def test_tasks_are_drawn_as_often_as_they_weigh():
    # 40 columns are ten turns of four. Of each turn task 0 gets 4 * 5/10 = 2 exactly, task 1 gets
    # 4 * 3/10 = 1.2: one or two, task 2 gets 4 * 2/10 = 0.8: none or one, and task 3 nothing
    counts = Counter(e.task for e in drawn_tasks([5, 3, 2, 0]))
    assert counts[0] == 20 and counts[3] == 0
    assert 10 <= counts[1] <= 20 and 0 <= counts[2] <= 10 and counts[1] + counts[2] == 20
    # on average over turns: 1000 of them
    often = Counter(e.task for e in drawn_tasks([5, 3, 2, 0], groups=4000))
    assert abs(often[1] - 1200) < 60 and often[0] == 2000  # 60: 4 sqrt(1000 * 0.2 * 0.8) = 51


def test_equal_weights_draw_as_no_weights():
    assert drawn_tasks([2.0] * 4) == drawn_tasks(None)
    assert drawn_tasks([0.3] * 4, seed=8) == drawn_tasks(None, seed=8)


def test_one_task_may_have_all_the_weight():
    assert {e.task for e in drawn_tasks([0, 0, 1e-9, 0])} == {2}


def test_groups_stay_whole_and_ranges_agree_under_weights():
    spec, config = toy(total_num_envs=32)
    settings = {"seed": 1, "update": 2, "num_action_chunks": 2, "group_size": 4}
    settings["weights"] = [1, 2, 3, 4]
    whole = training_columns(spec, config, **settings)
    parts = [training_columns(spec, config, **settings, groups=g) for g in (range(5), range(5, 8))]
    assert {c.episodes for part in parts for c in part} == {c.episodes for c in whole}
    groups = {}
    for column in whole:
        groups.setdefault(column.episodes[0].group, set()).add(column.episodes[0][:2])
    assert [len(starts) for starts in groups.values()] == [1] * 8


def test_training_columns_depend_on_seed_and_update_only():
    spec, config = toy(total_num_envs=8)

    def starts(seed, update):
        columns = training_columns(spec, config, seed=seed, update=update, num_action_chunks=2)
        return [c.episodes for c in columns]

    assert starts(0, 0) == starts(0, 0)
    assert starts(0, 0) != starts(0, 1)
    assert starts(0, 0) != starts(1, 0)


def test_groups_share_a_start_and_differ_in_replica():
    spec, config = toy(total_num_envs=8)
    columns = training_columns(spec, config, seed=0, update=0, num_action_chunks=2, group_size=4)
    groups = {}
    for column in columns:
        episode = column.episodes[0]
        groups.setdefault(episode.group, []).append(episode)
    assert len(groups) == 2
    for members in groups.values():
        assert len({(e.task, e.trial) for e in members}) == 1
        assert len({e.replica for e in members}) == 4


def test_groups_are_the_same_however_an_update_is_cut():
    """One task with few trials, so that groups of different ranges share starts."""
    spec, config = toy(tasks=["reach-up"], total_num_envs=8, rollout_epoch=50)
    spec = replace(spec, train_trials=range(20))
    settings = {"seed": 5, "update": 3, "num_action_chunks": 2, "group_size": 4}

    def drawn(*ranges):
        return [training_columns(spec, config, **settings, groups=groups) for groups in ranges]

    (whole,) = drawn(range(100))
    assert whole == training_columns(spec, config, **settings)
    parts = drawn(range(60), range(60, 61), range(61, 100))
    assert [len(part) for part in parts] == [240, 4, 156]
    columns = [column for part in parts for column in part]
    assert [column.number for column in columns] == list(range(400))
    assert {c.episodes for c in columns} == {c.episodes for c in whole}
    # 100 groups over 20 trials: starts repeat, addresses (and with them all noise) do not
    noise = [(e.task, e.trial, e.replica) for c in columns for e in c.episodes]
    assert len({key[:2] for key in noise}) == 20 and len(set(noise)) == 400


def test_addresses_are_unique_even_when_a_start_is_drawn_twice():
    spec, config = toy(tasks=["reach-up"], total_num_envs=64, rollout_epoch=40)
    columns = training_columns(spec, config, seed=0, update=0, num_action_chunks=2)
    # 2,560 draws from 1,000 trials must repeat some
    assert len({c.episodes[0][:2] for c in columns}) < 2560
    assert len({c.episodes[0] for c in columns}) == 2560


def test_auto_reset_columns_hold_enough_episodes():
    spec, config = toy(
        total_num_envs=2, auto_reset=True, max_steps_per_rollout_epoch=12, max_episode_steps=6
    )
    columns = training_columns(spec, config, seed=0, update=0, num_action_chunks=2)
    assert [len(c.episodes) for c in columns] == [6, 6]  # 12 steps / 2 per chunk


def dealt(tasks, hands):
    """Tasks of each hand, of a column for each digit; each column goes to one hand."""
    columns = [Column(number, (Episode(int(task), number),)) for number, task in enumerate(tasks)]
    found = deal(columns, hands)
    assert sorted(column.number for hand in found for column in hand) == list(range(len(tasks)))
    return ["".join(str(column.task) for column in hand) for hand in found]


def test_a_deal_keeps_the_columns_of_a_task_together():
    # two of the six tasks each; round robin by column would be all six for everyone
    assert dealt("000111222333444555", 3) == ["000333", "111444", "222555"]
    # five tasks of four for three hands: 8 and 8 and 4, and 20 are cut after 7 and 14
    assert dealt("00001111222233334444", 3) == ["0000333", "3111144", "442222"]
    assert dealt("0123", 2) == ["02", "13"]
    assert dealt("01", 3) == ["0", "1", ""]
    # seven of their own tasks for five: the first two have one more
    assert list(map(len, dealt("0123456", 5))) == [2, 2, 1, 1, 1]


def test_a_deal_spreads_a_task_of_many_columns():
    """24 of each task are three runs of 8: every other one of 0 0 0 1 1 1 is 0 0 1, and 0 1 1."""
    assert dealt("0" * 24 + "1" * 24, 2) == ["0" * 16 + "1" * 8, "0" * 8 + "1" * 16]
    # 11 are one run (11 / 8 = 1.4), 13 two of 7 and 6 (1.6)
    assert dealt("0" * 11 + "1" * 13, 2) == ["0" * 11 + "1", "1" * 12]


def test_one_hand_plays_columns_in_their_order():
    columns = [Column(i, (Episode(task, i),)) for i, task in enumerate([0, 0, 1, 1, 1, 3])]
    assert deal(columns, 1) == [columns]


def test_filmed_columns_are_spread_over_tasks():
    columns = [Column(number, (Episode(number // 5, number % 5),)) for number in range(20)]
    # i * 20 // 8: 0, 2.5, 5, 7.5, ...: two of each task
    eight = filmed_columns(columns, VideoConfig(save_video=True, num_episodes=8))
    assert eight == {0, 2, 5, 7, 10, 12, 15, 17}
    assert filmed_columns(columns[:3], VideoConfig(save_video=True)) == {0, 1, 2}
    assert filmed_columns(columns, VideoConfig(save_video=False)) == frozenset()
    assert filmed_columns([], VideoConfig(save_video=True)) == frozenset()


def test_some_episodes_begin_where_a_demonstration_began():
    spec, config = toy(total_num_envs=400)
    settings = {"seed": 3, "update": 0, "num_action_chunks": 2, "group_size": 2}
    plain = training_columns(spec, config, **settings)
    # task 0 has two demonstrations, task 1 one, the others none
    for share in (0.25, 1.0):
        shown = DemonstratedStarts(share, [[7, 9], [5], [], []])
        columns = training_columns(spec, config, **settings, demonstrated=shown)
        trials = {task: [] for task in range(4)}
        for column in columns:
            trials[column.task].append(column.episodes[0].trial)
        assert [len(each) for each in trials.values()] == [100] * 4
        for task, known in ((0, {7, 9}), (1, {5})):
            begun = sum(trial in known for trial in trials[task]) / 100
            assert begun == pytest.approx(share, abs=0.12)
        assert {7, 9} <= set(trials[0])
        unshown = [column.episodes for column in columns if column.task > 1]
        assert [each[0][:3] for each in unshown] == [
            column.episodes[0][:3] for column in plain if column.task > 1
        ]
        groups = {}
        for column in columns:
            groups.setdefault(column.episodes[0].group, set()).add(column.episodes[0][:2])
        assert all(len(starts) == 1 for starts in groups.values())


def test_the_share_of_demonstrated_starts_falls_to_0():
    runner = RunnerConfig(max_epochs=6, demonstration_starts=0.9)
    shares = [runner.demonstrated_share(update) for update in range(6)]
    # 0.9 (1 - s / 0.5) with s = 0, 1/6, 2/6, ...
    assert shares == pytest.approx([0.9, 0.6, 0.3, 0, 0, 0])
    assert RunnerConfig(max_epochs=-1).demonstrated_share(3) == 0.0
