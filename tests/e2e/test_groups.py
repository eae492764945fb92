"""Whole runs that compare episodes of one start: groups stay whole on any placement, groups out of
bounds are replaced by the same others everywhere, and neither a fault nor a resume changes that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from internals import assemble, compose, load_checkpoint, train
from resume_cases import play
from rlcore_policy_gradient import group_relative as group
from safetensors.torch import load_file
from sameness import assert_same, numbers

from rlcore.contracts.errors import WorkerError
from rlcore.learner.update import Learner
from rlcore.rollout.columns import canonical
from rlcore.training import batch

pytestmark = pytest.mark.usefixtures("two_cores")
SIZE, COLUMNS = 4, 24
GROUPED = [
    "env=toy",
    "model=toy",
    "algorithm=grpo",
    f"algorithm.group_size={SIZE}",
    "algorithm.filter_rewards=true",
    "algorithm.refill=true",
    "algorithm.refill_max_rounds=2",
    "algorithm.kl_beta=0.01",
    "algorithm.clip_ratio_high=0.28",
    "sft.enabled=true",
    "sft.max_steps=80",
    "collect.episodes_per_task=3",
    "runner.max_epochs=4",
    "runner.save_interval=1",
    "env.train.total_num_envs=12",
    "env.train.rollout_epoch=2",
    "env.train.max_episode_steps=10",
    "env.eval.total_num_envs=12",
    "env.eval.max_episode_steps=10",
    "env.eval.trials_per_task=3",
    "rollout.forward_batch=4",
    "actor.micro_batch_size=16",
    "actor.global_batch_size=64",
    "actor.optim.lr=3e-4",
    "cluster.backend=local",
    "cluster.torch_threads=1",
]
ONE_EACH = "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}"
SEPARATE = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"
SEVERAL = "cluster.component_placement={env: 0-1, rollout: 0-1, actor: 1}"
HYBRID = "cluster.component_placement={env: 0-1, rollout: 0, actor: 0-1}"
RAY = "cluster.backend=ray"


def start(log_path: Path, name: str, *overrides: str) -> Path:
    return play(log_path, name, *GROUPED, *overrides)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four updates in one process, one stage, uninterrupted."""
    return start(tmp_path_factory.mktemp("runs"), "whole")


@pytest.fixture
def updates(monkeypatch) -> list[Any]:
    """The batch of each update, as the learner of this process got it."""
    seen: list[Any] = []
    original = Learner.update

    def update(self: Learner, trajectory: Any, number: int, *rest: Any) -> dict[str, float]:
        seen.append((canonical(trajectory), number))
        return original(self, trajectory, number, *rest)

    monkeypatch.setattr(Learner, "update", update)
    return seen


def by_group(trajectory: Any) -> dict[int, list[int]]:
    members = defaultdict(list)
    for column, number in enumerate(trajectory.group[0].tolist()):
        members[number].append(column)
    return members


@pytest.mark.quick(1)
@pytest.mark.parametrize("placement", [[ONE_EACH], [SEPARATE, "rollout.pipeline_stage_num=3"]])
def test_groups_are_whole_and_normalised_over_their_columns(
    log_path: Path, updates: list[Any], placement: list[str]
):
    run = start(log_path, "run", "runner.max_epochs=2", *placement)
    lines = [line for line in numbers(run) if "rollout/groups" in line]
    assert len(updates) == len(lines) == 2
    assert lines[0]["rollout/refill_rounds"] and lines[0]["rollout/groups"] > COLUMNS // SIZE
    for (trajectory, _), line in zip(updates, lines, strict=True):
        groups = by_group(trajectory)
        assert sorted(map(len, groups.values())) == [SIZE] * (COLUMNS // SIZE)
        highest = 0.0
        for columns in groups.values():
            names = ("task", "trial", "replica")
            address = {tuple(int(getattr(trajectory, n)[0, c]) for n in names) for c in columns}
            assert len(address) == SIZE and len({a[:2] for a in address}) == 1
            # by hand, from this group's columns alone
            returns = torch.stack([trajectory.rewards[:, c].sum() for c in columns])
            if 0.1 <= float(returns.mean()) <= 0.9:
                best = (returns.max() - returns.mean()) / (returns.std() + 1e-6)
                highest = max(highest, float(best))
        assert line["rollout/advantages_max"] == pytest.approx(highest, rel=1e-5)
        # members are different episodes: noise was drawn under keys of their own
        first = trajectory.logprobs[0].flatten(1)
        assert len(torch.unique(first, dim=0)) == COLUMNS


@pytest.mark.long
def test_replaced_groups_are_counted(whole: Path):
    lines = [line for line in numbers(whole) if "rollout/groups" in line]
    assert len(lines) == 4
    for line in lines:
        played, share = line["rollout/groups"], line["rollout/groups_within_bounds"]
        assert line["env/episodes"] == played * SIZE  # all, also those that were given up
        kept = played * share
        assert kept == pytest.approx(round(kept)) and kept <= COLUMNS // SIZE
        full = round(kept) == COLUMNS // SIZE
        assert full or line["rollout/refill_rounds"] == 2
    assert any(line["rollout/refill_rounds"] > 0 for line in lines)


@pytest.mark.long
@pytest.mark.parametrize("stages", [1, 3])
def test_separate_objects_equal_a_fused_one(log_path: Path, whole: Path, stages: int):
    run = start(log_path, "run", SEPARATE, f"rollout.pipeline_stage_num={stages}")
    assert_same(run, whole)


@pytest.mark.long
def test_processes_of_their_own_equal_one(log_path: Path, whole: Path, ray_cluster: None):
    """Two env workers with three stages each: a round that fills up has fewer columns than
    there are streams, and some worker has nothing to play."""
    assert_same(start(log_path, "run", RAY, SEVERAL, "rollout.pipeline_stage_num=3"), whole)


@pytest.mark.long
def test_groups_may_be_cut_between_actor_ranks(log_path: Path, whole: Path, ray_cluster: None):
    """Columns of a group go to both ranks; gradients are summed in another order: 1e-6."""
    run = start(log_path, "run", RAY, HYBRID, "rollout.pipeline_stage_num=2")
    for mine, other in zip(numbers(run), numbers(whole), strict=True):
        assert mine == pytest.approx(other, abs=1e-4)
    ours, theirs = (
        load_file(load_checkpoint(one).policy_path / "model.safetensors") for one in (run, whole)
    )
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, rtol=0, atol=1e-6)


@pytest.mark.long
def test_a_member_whose_simulator_dies_is_played_again(
    log_path: Path, whole: Path, ray_cluster: None, capsys
):
    dying = ["env.train.fail_at=60", "env.train.fail_how=die"]
    run = start(log_path, "run", RAY, ONE_EACH, *dying)
    assert "recovered: env worker 0 died" in capsys.readouterr().out
    assert_same(run, whole)


def mixed(columns: list[Any]) -> list[Any]:
    """One member starts elsewhere."""
    (episode,) = columns[5].episodes
    stray = replace(columns[5], episodes=(episode._replace(trial=episode.trial + 1),))
    return [*columns[:5], stray, *columns[6:]]


def short(columns: list[Any]) -> list[Any]:
    """One member is not played."""
    return [*columns[:5], *columns[6:]]


def swapped(columns: list[Any]) -> list[Any]:
    """Two episodes belong to each other's groups."""
    a, b = (
        columns[0],
        next(c for c in columns if c.episodes[0].group != columns[0].episodes[0].group),
    )
    groups = [one.episodes[0].group for one in (a, b)]
    other = {
        one.number: replace(one, episodes=(one.episodes[0]._replace(group=number),))
        for one, number in zip((a, b), reversed(groups), strict=True)
    }
    return [other.get(column.number, column) for column in columns]


@pytest.mark.quick(1)
@pytest.mark.parametrize("damage", [mixed, short, swapped])
@pytest.mark.parametrize(
    "placement",
    [
        pytest.param([ONE_EACH], id="fused"),
        pytest.param([SEPARATE], id="separate"),
        pytest.param([RAY, HYBRID], id="ray", marks=pytest.mark.long),
    ],
)
def test_a_batch_with_a_broken_group_trains_nothing(
    log_path: Path,
    monkeypatch,
    request: pytest.FixtureRequest,
    damage: Callable[[list[Any]], list[Any]],
    placement: list[str],
    refused,
):
    if RAY in placement:
        request.getfixturevalue("ray_cluster")
    made = batch.training_columns
    monkeypatch.setattr(batch, "training_columns", lambda *a, **k: damage(made(*a, **k)))
    quick = ["sft.enabled=false", "runner.val_before_train=false", "algorithm.filter_rewards=false",
             "algorithm.refill=false"]  # fmt: skip
    with refused(WorkerError, "group", "not whole", text=False):
        start(log_path, "run", *quick, *placement)


def test_a_batch_that_stays_unfilled_is_announced(log_path: Path, capsys):
    """No episode reaches a goal in one chunk: all means are 0, nothing is trained on."""
    never = ["sft.enabled=false", "env.train.max_episode_steps=2", "runner.max_epochs=1",
             "runner.val_before_train=false"]  # fmt: skip
    run = start(log_path, "run", *never)
    output = capsys.readouterr().out
    (line,) = [line for line in output.splitlines() if "update 1: after 2 rounds" in line]
    assert "0 of 6 groups" in line and "[0.1, 0.9]" in line
    (line,) = [line for line in numbers(run) if "rollout/groups" in line]
    assert line["rollout/groups"] == 18 and line["rollout/groups_within_bounds"] == 0
    assert line["train/actor/trained_samples"] == line["train/actor/optimizer_steps"] == 0


@pytest.mark.long
def test_a_filter_alone_plays_nothing_again(log_path: Path, updates: list[Any]):
    run = start(log_path, "run", "algorithm.refill=false", "runner.max_epochs=1")
    (line,) = [line for line in numbers(run) if "rollout/groups" in line]
    assert line["rollout/groups"] == 6 and line["rollout/refill_rounds"] == 0
    share = line["rollout/groups_within_bounds"]
    assert 0 < share < 1
    ((trajectory, _),) = updates
    scores = group.episode_scores(trajectory)
    means = [float(scores[columns].mean()) for columns in by_group(trajectory).values()]
    assert share == sum(0.1 <= mean <= 0.9 for mean in means) / 6
    kept = [
        bool(0.1 <= float(scores[columns].mean()) <= 0.9)
        for columns in by_group(trajectory).values()
        for _ in columns
    ]
    chunks = trajectory.valid.any(-1).sum(0)
    order = [column for columns in by_group(trajectory).values() for column in columns]
    trained = sum(int(chunks[c]) for c, wanted in zip(order, kept, strict=True) if wanted)
    assert line["train/actor/trained_samples"] == trained > 0


@pytest.mark.long
def test_it_improves_the_toy(log_path: Path):
    """By the rules of the other learning test: held-out starts, paired, the interval above."""
    config = compose(
        [
            *GROUPED,
            f"runner.logger.log_path={log_path}",
            "algorithm.refill=false",
            "algorithm.kl_beta=0",
            "algorithm.update_epoch=4",
            "runner.max_epochs=25",
            "runner.save_interval=-1",
            "actor.optim.lr=1e-3",
            "env.train.total_num_envs=64",
            "env.train.rollout_epoch=1",
            "env.eval.trials_per_task=40",
            "sft.max_steps=25",
            "rollout.forward_batch=null",
        ]
    )
    summary = train(assemble(config))
    assert summary["paired_difference"]["lo"] > 0.02, summary
