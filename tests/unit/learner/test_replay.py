"""A replay's rows, targets, size and files, worked out by hand on two short episodes."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import fields, replace

import pytest
import torch

from rlcore.contracts.errors import AlgorithmError, CheckpointError
from rlcore.contracts.specs import ActionChannel, EnvSpec, PolicySpec, ReplayNeeds
from rlcore.contracts.trajectory import Trajectory
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner.replay import ReplayStore
from rlcore.rollout.columns import canonical
from rlcore.runs.learner_state import COUNTERS
from rlcore.runs.replay_files import REPLAY, link_segments

ROOM = 10**6
CPU = torch.device("cpu")
ENV = EnvSpec(
    name="rail",
    tasks=("go",),
    instructions=("go",),
    train_trials=range(10),
    heldout_trials=range(10, 20),
    cameras=(),
    states=(),
    actions=(ActionChannel("ee_delta_position", 1, -1.0, 1.0),),
    max_episode_steps=6,
)
POLICY = PolicySpec("linear", 0, 0, 1, num_action_chunks=2, action_horizon=4)


def rollout(won: bool = True) -> Trajectory:
    """Two columns of C = 2, A = 1. The first ends with a success at its fifth step (if `won`), the
    second at a time limit after four. `x` of a decision is its number, 0 to 4."""
    valid = torch.tensor([[[1, 1], [1, 1]], [[1, 1], [1, 1]], [[1, 0], [0, 0]]]).bool()
    ended = torch.zeros_like(valid)
    terminated = ended.clone()
    truncated = ended.clone()
    terminated[2, 0, 0] = truncated[1, 1, 1] = True
    success = torch.zeros(3, 2, dtype=torch.bool)
    success[2, 0] = won  # only by its end
    rewards = torch.tensor([[[1, 2], [0, 1]], [[3, 4], [0, 0]], [[5, 0], [0, 0]]]).float()
    actions = torch.tensor([[[0.1, 0.2], [-0.1, -3]], [[0.3, 0.4], [0, 0]], [[0.5, 9], [7, 7]]])
    zero = torch.zeros(3, 2, dtype=torch.int64)
    return Trajectory(
        rewards=rewards,
        valid=valid,
        terminated=terminated,
        truncated=truncated,
        actions=actions[..., None],
        logprobs=torch.zeros(3, 2, 2, 1),
        values=torch.zeros(3, 2, 0),
        bootstrap_values=torch.zeros(3, 2, 0),
        task=zero,
        trial=torch.tensor([[4, 7]]).expand(3, 2).contiguous(),
        replica=zero,
        group=zero - 1,
        episode=zero,
        policy_version=zero,
        success=success,
        sample_index=torch.tensor([[0, 3], [1, 4], [2, -1]]),
        inputs={
            "x": torch.arange(5.0)[:, None],
            "image": torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, 4, 4, 3),
        },
        replay={"noise": torch.zeros(5, 2)},
    )


def store(size: int = ROOM, *, failures: bool = True, env: EnvSpec | None = ENV) -> ReplayStore:
    return ReplayStore(ReplayNeeds(size, failures), POLICY, env, CPU)


def shown(count: int = 3) -> SupervisedSamples:
    return SupervisedSamples(
        {"x": torch.full((count, 1), 50.0), "image": torch.zeros(count, 4, 4, 3).byte()},
        torch.full((count, 4, 1), 0.7),
        torch.ones(count, 4, dtype=torch.bool),
    )


def test_rows_are_counted_column_by_column_and_success_is_the_whole_episodes():
    made = store()
    made.add(0, rollout())
    assert [made.count(among) for among in ("all", "successes", "demonstrations")] == [5, 3, 0]
    assert made.inputs(torch.tensor([4, 0, 2]))["x"].flatten().tolist() == [4, 0, 2]
    made.add(1, rollout(won=False))
    made.add_demonstrations(shown(3))  # these come first
    assert [made.count(among) for among in ("all", "successes", "demonstrations")] == [10, 3, 3]
    assert made.inputs(torch.tensor([12, 1, 3]))["x"].flatten().tolist() == [4, 50, 0]
    assert set(made.sample(100, "successes", (0, "a")).tolist()) == {3, 4, 5}
    assert set(made.sample(100, "demonstrations", (0, "a")).tolist()) == {0, 1, 2}
    assert set(made.sample(200, "all", (0, "a")).tolist()) == set(range(3, 13))


@pytest.mark.parametrize("has_demonstrations", [False, True])
def test_a_rank_that_holds_no_row_of_a_step_gets_empty_arrays(has_demonstrations):
    made = store()
    made.add(0, rollout())
    if has_demonstrations:
        made.add_demonstrations(shown(3))
    none = torch.zeros(0, dtype=torch.int64)
    assert {name: tuple(array.shape) for name, array in made.inputs(none).items()} == {
        "x": (0, 1),
        "image": (0, 4, 4, 3),
    }
    actions, mask = made.action_targets(none)
    assert (len(actions), mask.shape, mask.dtype) == (0, actions.shape[:2], torch.bool)
    if not has_demonstrations:  # these say nothing about where they are
        after = made.n_step_targets(none, chunks=2, gamma=0.9)
        assert (len(after.rewards), after.inputs["x"].shape) == (0, (0, 1))


def test_tasks_have_equal_shares_of_drawn_successes():
    made = store()
    for number, task in enumerate([2, 2, 2, 7]):  # 5 decisions each, 3 of them of successes
        batch = rollout()
        made.add(number, replace(batch, task=torch.full_like(batch.task, task)))
    drawn = {kind: made.sample(3000, kind, (0, "a")) for kind in ("all", "successes")}
    share = {kind: float((rows >= 15).float().mean()) for kind, rows in drawn.items()}
    assert share == pytest.approx({"all": 0.25, "successes": 0.5}, abs=0.03)


def test_draws_depend_on_their_key_alone(refused):
    first = store()
    other = store()
    for made in (first, other):
        made.add(0, rollout())
        made.sample(3, "all", (1,))
    assert torch.equal(first.sample(9, "all", (7, "s", 2)), other.sample(9, "all", (7, "s", 2)))
    assert not torch.equal(first.sample(9, "all", (7, "s", 2)), first.sample(9, "all", (7, "s", 3)))
    with refused(AlgorithmError, "demonstrations"):
        first.sample(1, "demonstrations", (0,))


def test_following_discounts_executed_steps_and_stops_at_the_end():
    made = store()
    made.add(0, rollout())
    two = made.n_step_targets(torch.tensor([0, 1, 3]), chunks=2, gamma=0.5)
    # row 0: 1 + 2/2 + 3/4 + 4/8, then decision 2 after four steps; row 1: 3 + 4/2 + 5/4 and the
    # end; row 3: 0 + 1/2 and the time limit
    assert two.rewards.tolist() == [3.25, 6.25, 0.5]
    assert two.discounts.tolist() == [0.0625, 0.0, 0.0]
    assert two.valid.tolist() == [True, True, False]
    assert two.truncated.tolist() == [False, False, True]
    assert two.inputs["x"][0].tolist() == [2.0]
    assert two.actions[0, 0].item() == 0.5
    single = made.n_step_targets(torch.tensor([0, 1, 2, 3, 4]), chunks=1, gamma=0.5)
    assert single.rewards.tolist() == [2.0, 5.0, 5.0, 0.5, 0.0]
    assert single.discounts.tolist() == [0.25, 0.25, 0.0, 0.25, 0.0]
    assert single.inputs["x"].flatten().tolist()[:2] == [1.0, 2.0]
    assert single.inputs["x"][3].item() == 4.0


def two_demonstrations() -> SupervisedSamples:
    """Return frames before every second step of demonstrations of 5 and 3 steps: steps 0, 2, 4 and
    0, 2. `x` is the row's number; action h of a row is its number plus h / 10."""
    x = torch.arange(5.0)[:, None]
    return SupervisedSamples(
        {"x": x, "image": torch.zeros(5, 4, 4, 3).byte()},
        (x + torch.arange(4) / 10)[..., None],
        torch.ones(5, 4, dtype=torch.bool),
        demonstration=torch.tensor([0, 0, 0, 1, 1]),
        steps_left=torch.tensor([5, 3, 1, 3, 1]),
    )


def test_demonstrations_have_chunks_and_end_in_reward_1():
    made = store()
    made.add(0, rollout())
    made.add_demonstrations(two_demonstrations())
    rows = torch.tensor([0, 1, 2, 3, 4, 5])  # row 5 is the rollout's first
    chunks = made.actions(rows)[..., 0].tolist()
    assert chunks[1] == pytest.approx([1.0, 1.1]) and chunks[5] == pytest.approx([0.1, 0.2])
    single = made.n_step_targets(rows, chunks=1, gamma=0.5)
    # of one step left: 1; of three left, two of which are in the chunk: nothing yet
    assert single.rewards.tolist() == [0.0, 0.0, 1.0, 0.0, 1.0, 2.0]
    assert single.discounts.tolist() == [0.25, 0.25, 0.0, 0.25, 0.0, 0.25]
    assert single.valid.all()
    assert single.inputs["x"].flatten().tolist()[:2] == [1.0, 2.0]
    assert single.inputs["x"][3].item() == 4.0 and single.inputs["x"][5].item() == 1.0
    assert single.actions[0, :, 0].tolist() == pytest.approx([1.0, 1.1])
    # two chunks are four steps: row 0 goes on to row 2, rows 1 and 3 end two steps later
    two = made.n_step_targets(rows[:5], chunks=2, gamma=0.5)
    assert two.rewards.tolist() == [0.0, 0.25, 1.0, 0.25, 1.0]
    assert two.discounts.tolist() == [0.0625, 0.0, 0.0, 0.0, 0.0]
    assert two.inputs["x"][0].item() == 2.0


def test_the_reward_of_success_is_that_of_the_env():
    made = store()
    made.add_demonstrations(two_demonstrations(), reward=5.0)
    two = made.n_step_targets(torch.arange(5), chunks=2, gamma=0.5)
    # two steps after rows 1 and 3: 5 / 4
    assert two.rewards.tolist() == [0.0, 1.25, 5.0, 1.25, 5.0]
    assert made.demonstration(torch.tensor([4, 0])).tolist() == [1, 0]


def test_a_demonstration_without_the_next_frame_has_no_target(refused):
    samples = two_demonstrations()
    made = ReplayStore(ReplayNeeds(ROOM), replace(POLICY, num_action_chunks=3), ENV, CPU)
    made.add_demonstrations(samples)
    rows = torch.arange(5)
    after = made.n_step_targets(rows, chunks=1, gamma=0.5)
    assert after.valid.tolist() == [False, True, True, True, True]  # nothing was rendered at step 3
    assert after.rewards.tolist() == [0.0, 0.25, 1.0, 0.25, 1.0]
    made.add_demonstrations(replace(samples, steps_left=None))
    with refused(AlgorithmError, "steps_left"):
        made.n_step_targets(rows, chunks=1, gamma=0.5)


def test_action_targets_go_over_chunks_within_the_range_up_to_the_end():
    made = store()
    made.add(0, rollout())
    actions, mask = made.action_targets(torch.tensor([1, 0, 3, 2]))
    expected = [[0.3, 0.4, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [-0.1, -1, 0, 0], [0.5] * 4]
    assert actions[..., 0].tolist() == [pytest.approx(row) for row in expected]
    assert mask.tolist() == [[True] * 3 + [False], [True] * 4, [True] * 4, [True] + [False] * 3]
    unbound = store(env=None)
    unbound.add(0, rollout())
    assert unbound.action_targets(torch.tensor([3]))[0][0, 1].item() == -3.0


def with_final_decision(batch: Trajectory) -> Trajectory:
    """Return the rollout with the decision at the final observation of its second column, which the
    time limit ended: `x` is 5, and its actions are 0.8 and 0.9."""
    batch.sample_index[2, 1] = 5
    batch.actions[2, 1] = torch.tensor([[0.8], [0.9]])
    inputs = {name: torch.cat([array, array[:1] + 5]) for name, array in batch.inputs.items()}
    return replace(batch, inputs=inputs, replay={"noise": torch.zeros(6, 2)})


def keeping(size: int = ROOM) -> ReplayStore:
    return ReplayStore(ReplayNeeds(size, final_decisions=True), POLICY, ENV, CPU)


def test_targets_bootstrap_from_the_decision_at_a_final_observation():
    made = keeping()
    made.add(0, with_final_decision(rollout()))
    assert [made.count(among) for among in ("all", "successes", "failures")] == [5, 3, 2]
    rows = torch.tensor([0, 1, 3, 4])
    for chunks, row_3 in ((1, (0.5, 0.25)), (2, (0.5, 0.0625)), (3, (0.5, 0.0625))):
        after = made.n_step_targets(rows, chunks=chunks, gamma=0.5)
        assert after.valid.all()
        # row 3: 0 + 1/2, then decision 4 two steps later or the final one four steps later; row 4:
        # nothing, then the final one two steps later
        assert after.rewards.tolist()[2:] == [row_3[0], 0.0]
        assert after.discounts.tolist()[2:] == [row_3[1], 0.25]
        assert after.truncated.tolist() == [False, False, chunks > 1, True]
        assert after.inputs["x"].flatten().tolist()[2:] == [4.0 if chunks == 1 else 5.0, 5.0]
        assert after.actions[3, :, 0].tolist() == pytest.approx([0.8, 0.9])
        assert made.action_targets(torch.tensor([4]))[0].flatten().tolist() == [0.0] * 4
    # the episode that ended with a success is worth what it was
    assert after.discounts.tolist()[:2] == [0.0, 0.0]


def test_a_final_decision_counts_in_bytes_and_is_saved(tmp_path):
    size = 6 * 52 + 6 * (8 + 6 + 8 + 8 + 56 + 1 + 38)  # as below, with a sixth decision
    for bytes_of_replay, rollouts in ((2 * size, 2), (2 * size - 1, 1)):
        made = keeping(bytes_of_replay)
        for number in range(3):
            made.add(number, with_final_decision(rollout()))
        assert made.count() == 5 * rollouts
    saved = made.save(tmp_path, known=())
    other = keeping()
    other.load(tmp_path, saved)
    row = torch.tensor([4])
    after = other.n_step_targets(row, chunks=1, gamma=0.5)
    assert after.inputs["x"].item() == 5.0 and after.discounts.item() == 0.25
    # a run that goes on under other settings does not bootstrap
    masking = store()
    masking.load(tmp_path, saved)
    after = masking.n_step_targets(row, chunks=1, gamma=0.5)
    assert after.discounts.item() == 0.0 and not after.valid.item()


def test_final_decisions_that_are_not_read_move_no_inputs(tmp_path):
    """The final decision has the number 1 here, between decisions that stay."""
    batch = with_final_decision(rollout())
    moved = torch.tensor([0, 5, 1, 2, 3, 4])  # number -> row of the inputs above
    number = torch.tensor([0, 2, 3, 4, 5, 1, -1])  # row -> number; the last one: no decision
    inputs = {name: array[moved] for name, array in batch.inputs.items()}
    batch = replace(batch, inputs=inputs, sample_index=number[batch.sample_index])
    made = keeping()
    for update in range(3):
        made.add(update, batch)
    saved = made.save(tmp_path, known=())
    masking = store()
    masking.load(tmp_path, saved)
    for read in (made, masking):
        assert read.inputs(torch.arange(15))["x"].flatten().tolist() == [0, 1, 2, 3, 4] * 3
    after = masking.n_step_targets(torch.tensor([5, 8, 13]), chunks=1, gamma=0.5)
    assert after.inputs["x"].flatten().tolist() == [1.0, 4.0, 4.0]


def test_episodes_of_one_column_are_kept_apart():
    batch = rollout()
    batch.episode[2, 0] = 1  # with auto_reset: another episode, which succeeded
    made = store()
    made.add(0, batch)
    assert made.count("successes") == 1
    assert made.n_step_targets(torch.tensor([1]), chunks=1, gamma=0.5).discounts.tolist() == [0.0]
    assert made.action_targets(torch.tensor([1]))[1].tolist() == [[True, True, False, False]]


def test_rows_of_rollouts_of_unequal_length_are_read_as_if_each_were_stored_alone():
    whole = rollout()
    by_place = [
        field.name for field in fields(Trajectory) if field.name not in ("inputs", "replay")
    ]
    cut = {name: getattr(whole, name)[:2] for name in by_place}
    cut["sample_index"] = torch.tensor([[0, 2], [1, 3]])
    inputs = {name: array[[0, 1, 3, 4]] for name, array in whole.inputs.items()}
    rollouts = [replace(whole, **cut, inputs=inputs, replay={}), whole]  # 4 and 5 decisions
    together = store()
    alone = []
    for number, batch in enumerate(rollouts):
        together.add(number, batch)
        alone.append(store())
        alone[-1].add(number, batch)
    rows = torch.tensor([8, 0, 5, 3, 1, 4])
    sources = [(1, 4), (0, 0), (1, 1), (0, 3), (0, 1), (1, 0)]  # rollout, and row within it
    for chunks in (1, 2, 4):
        read = [
            together.inputs(rows)["x"],
            together.actions(rows),
            *together.action_targets(rows),
            *vars(together.n_step_targets(rows, chunks=chunks, gamma=0.9)).values(),
        ]
        *tensors, next_inputs = read
        for place, (number, row) in enumerate(sources):
            own = alone[number]
            one = torch.tensor([row])
            expected = [
                own.inputs(one)["x"],
                own.actions(one),
                *own.action_targets(one),
                *vars(own.n_step_targets(one, chunks=chunks, gamma=0.9)).values(),
            ]
            *expected_tensors, expected_next = expected
            for tensor, wanted in zip(tensors, expected_tensors, strict=True):
                torch.testing.assert_close(tensor[place], wanted[0])
            torch.testing.assert_close(next_inputs["x"][place], expected_next["x"][0])


def test_failures_are_left_out_on_request():
    made = store(failures=False)
    made.add(0, rollout())
    made.add(1, rollout(won=False))
    assert (made.count(), made.count("successes")) == (3, 3)
    assert made.inputs(torch.arange(3))["x"].flatten().tolist() == [0, 1, 2]


def test_the_oldest_rollouts_are_dropped_when_the_bytes_are_used_up():
    # of a rollout: 5 decisions with inputs of 4 + 48, images as uint8 and without `replay`; 3
    # chunks of 2 columns: rewards 8, valid, terminated, truncated 2 each, actions 8, log-probs 8,
    # seven numbers of 8 bytes, success 1; what rows are read from once more: rewards 8, the three
    # of 2, actions 8, two numbers of 8
    size = 5 * 52 + 6 * (8 + 6 + 8 + 8 + 56 + 1 + 38)
    for bytes_of_replay, rollouts, excess in (
        (2 * size, 2, 0),
        (2 * size - 1, 1, 0),
        (size - 1, 1, 1),
    ):
        made = store(bytes_of_replay)
        for number in range(4):
            made.add(number, rollout(won=number >= 2))
        assert (made.count(), made.count("successes")) == (5 * rollouts, 3 * rollouts)
        assert made.excess == excess, "the newest rollout stays although it does not fit"
    assert made.inputs(torch.arange(5))["image"].dtype == torch.uint8


def test_a_disk_without_hard_links_gets_copies(tmp_path, monkeypatch):
    earlier = tmp_path / "earlier"
    later = tmp_path / "later"
    made = store()
    made.add(0, rollout())
    for folder in (earlier, later):
        folder.mkdir()
    saved = made.save(earlier, known=())
    (later / COUNTERS).write_text(json.dumps({"state": {REPLAY: saved}}))

    def link(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    link_segments(later, earlier)
    (first,), (other,) = (list(folder.glob("replay-*")) for folder in (earlier, later))
    assert first.read_bytes() == other.read_bytes() and not first.samefile(other)


def test_files_are_written_once_and_read_back(refused, tmp_path):
    made = store()
    for number in range(2):
        made.add(number, rollout(won=bool(number)))
    saved = made.save(tmp_path, known=())
    names = [f"replay-{number:06d}-00001-of-00001.safetensors" for number in range(2)]
    assert sorted(os.listdir(tmp_path)) == names and saved == [(0, 1), (1, 1)]
    for name in names:
        os.utime(tmp_path / name, (1, 1))
    made.add(2, rollout())
    saved = made.save(tmp_path, known=names)
    assert [os.stat(tmp_path / name).st_mtime for name in names] == [1, 1]
    other = store()
    other.load(tmp_path, saved)
    assert [other.count(among) for among in ("all", "successes")] == [15, 6]
    rows = torch.arange(15)
    for name, array in made.inputs(rows).items():
        assert torch.equal(array, other.inputs(rows)[name])
        assert array.dtype == other.inputs(rows)[name].dtype
    for kind in (0, 1):
        assert torch.equal(made.action_targets(rows)[kind], other.action_targets(rows)[kind])
    (tmp_path / names[1]).unlink()
    with refused(CheckpointError, names[1]):
        store().load(tmp_path, saved)


def test_columns_are_stored_in_canonical_order():
    batch = rollout()
    made = store()
    by_column = {name: array for name, array in vars(batch).items() if torch.is_tensor(array)}
    swapped = {name: array.flip(1) for name, array in by_column.items()}
    made.add(0, canonical(replace(batch, **swapped)))
    assert made.inputs(torch.arange(5))["x"].flatten().tolist() == [0, 1, 2, 3, 4]
    assert made.n_step_targets(torch.tensor([0]), chunks=3, gamma=1.0).rewards.tolist() == [15.0]
