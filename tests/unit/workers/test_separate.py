"""Rollout workers and actor workers apart: one process plays all of them, on the toy."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch
from rlcore_algo_grpo.settings import GRPOConfig
from rlcore_testing.toy_policy import ToyPolicy
from rlcore_testing.toy_settings import ToyEnvConfig, ToyModelConfig, env_spec

from rlcore.config.schema import ActorConfig, AlgorithmConfig, ClusterConfig
from rlcore.contracts.errors import WorkerError
from rlcore.placement.plan import Allocation, parts_of_stage, rollout_rank_of
from rlcore.plugins.registry import load_plugins
from rlcore.rollout.columns import LIGHT, canonical, join, take
from rlcore.rollout.messages import GatherOrder, InteractJob, RolloutJob, Route
from rlcore.rollout.schedule import deal, training_columns
from rlcore.transport.layout import named_weights
from rlcore.workers.actor_worker import ActorWorker
from rlcore.workers.channel import interleave
from rlcore.workers.env_worker import EnvSide, EnvWorker, EnvWorkerSettings
from rlcore.workers.fused_worker import FusedWorker
from rlcore.workers.local_group import LocalGroup
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.rollout_worker import RolloutWorker
from rlcore.workers.worker_specs import Member, WorkerSpecs

ENV = ToyEnvConfig(env_type="toy", total_num_envs=12)
MODEL = ToyModelConfig(model_type="toy", num_action_chunks=2, add_value_head=True)
SEAT = Allocation(node=0, local_ranks=(0,), cpus=1.0, gpus=0.0)


def policy_settings(seed=1) -> PolicyWorkerSettings:
    return PolicyWorkerSettings(
        policy_target="rlcore_testing.toy_policy:make",
        algorithm_target="",
        actor=ActorConfig(model=MODEL),
        algorithm=AlgorithmConfig(),
        env_spec=env_spec(ENV),
        seed=seed,
        threads=1,
    )


def env_settings(rank=0, workers=1, stages=1) -> EnvWorkerSettings:
    sides = {"train": EnvSide("rlcore_testing.toy_env:make", ENV)}
    return EnvWorkerSettings(
        sides, rank, workers, stages, num_processes=1, restarts=0, policy_timeout=5.0
    )


def jobs(*, envs=1, rollouts=1, stages=1):
    """The jobs of one training rollout, by rank: of the env workers and of the rollout workers."""
    columns = training_columns(env_spec(ENV), ENV, seed=1, update=0, num_action_chunks=2)
    routes = [Route(rank, stage) for rank in range(envs) for stage in range(stages)]
    hands = dict(zip(routes, deal(columns, len(routes)), strict=True))
    split = parts_of_stage(envs, stages, rollouts)
    dealt = [
        (
            Route(rank, stage, part),
            rollout_rank_of(rank, stage, envs, rollouts, part=part, parts=split),
        )
        for rank in range(envs)
        for stage in range(stages)
        for part in range(split)
    ]
    interact = [
        InteractJob(
            side="train",
            columns=tuple(tuple(hands[Route(rank, stage)]) for stage in range(stages)),
            chunks_per_column=None,
            bootstrap=True,
            parts=split,
        )
        for rank in range(envs)
    ]
    rollout = [
        RolloutJob(
            routes=tuple(route for route, by in dealt if by == rank),
            seed=1,
            order=GatherOrder("train", (), "train", 0, deterministic=False, keep=True),
            forward_batch=4,
            env_timeout=5.0,
        )
        for rank in range(rollouts)
    ]
    return interact, rollout


def gathered(make, *, envs=1, rollouts=1, stages=1):
    """Workers of class `make` that have gathered one rollout."""
    interact, rollout = jobs(envs=envs, rollouts=rollouts, stages=stages)
    actors = [make(policy_settings()) for _ in rollout]
    for actor in actors:
        actor.start()
    talks = [
        EnvWorker(env_settings(rank, envs, stages)).converse(job)
        for rank, job in enumerate(interact)
    ]
    talks += [actor.converse(job) for actor, job in zip(actors, rollout, strict=True)]
    interleave(talks)
    return actors


def received(rollouts, actors):
    """What each of `actors` actor ranks has received."""
    learners = [ActorWorker(policy_settings()) for _ in range(actors)]
    talks = [
        worker.send_trajectory([f"{rank}/{actor}" for actor in range(actors)])
        for rank, worker in enumerate(rollouts)
    ]
    for actor, learner in enumerate(learners):
        keys = [f"{rank}/{actor}" for rank in range(len(rollouts))]
        talks.append(learner.receive_trajectory(keys, timeout=1.0))
    interleave(talks)
    return [learner._trajectory for learner in learners]


@pytest.fixture(scope="module")
def reference():
    """The trajectory of one fused worker, where it was gathered."""
    (fused,) = gathered(FusedWorker)
    return canonical(fused._trajectory)


@pytest.mark.quick(5)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("envs", "rollouts"), [(1, 1), (2, 1), (2, 2), (1, 3), (2, 4)])
@pytest.mark.parametrize("actors", [1, 2])
def test_received_trajectories_equal_those_of_a_fused_worker(
    reference, stages, envs, rollouts, actors
):
    workers = gathered(RolloutWorker, envs=envs, rollouts=rollouts, stages=stages)
    parts = received(workers, actors)
    assert [part.shape[1] for part in parts] == [12 // actors] * actors
    whole = join(parts)
    for name in LIGHT:
        if name != "sample_index":
            assert torch.equal(getattr(whole, name), getattr(reference, name)), name
    made = reference.sample_index >= 0
    for heavy in ("inputs", "replay"):
        for name, array in getattr(reference, heavy).items():
            ours = getattr(whole, heavy)[name][whole.sample_index[made]]
            assert torch.equal(ours, array[reference.sample_index[made]]), name


def test_a_trajectory_is_handed_over_once(refused):
    (worker,) = gathered(RolloutWorker)
    received([worker], 1)
    with refused(WorkerError):
        received([worker], 1)


def test_a_worker_with_no_column_hands_over_nothing(reference):
    """As after a round of refill: one column is played by the first, nothing stays."""
    workers = gathered(RolloutWorker, envs=2, rollouts=2)
    interact, rollout = jobs(envs=2, rollouts=2)
    (column, *_), *_ = interact[0].columns
    again = [replace(interact[0], columns=((column,),)), replace(interact[1], columns=((),))]
    talks = [EnvWorker(env_settings(rank, 2)).converse(job) for rank, job in enumerate(again)]
    talks += [worker.converse(job) for worker, job in zip(workers, rollout, strict=True)]
    interleave(talks)
    mine, none = received(workers, 2)
    assert [part.shape[1] for part in (mine, none)] == [1, 0]
    place = column.number
    assert torch.equal(mine.rewards[:, 0], reference.rewards[: len(mine.rewards), place])


def test_kept_columns_stay_beside_those_gathered_later(reference):
    """Round by round, whatever is played in between: what stays is bitwise as it was."""
    worker = RolloutWorker(policy_settings())
    worker.start()

    def play(numbers, stay=frozenset()):
        (interact,), (rollout,) = jobs()
        chosen = tuple(c for c in interact.columns[0] if c.number in numbers)
        order = replace(rollout.order, stay=frozenset(stay))
        env = EnvWorker(env_settings()).converse(replace(interact, columns=(chosen,)))
        interleave([env, worker.converse(replace(rollout, order=order))])

    play({0, 1, 2, 3, 4, 5, 6})
    play({7, 8}, stay={1, 2, 5})
    play({7, 8}, stay={1, 2, 5})  # again, as after an env worker's death
    assert worker._columns == [1, 2, 5, 7, 8]
    play(set(), stay={2, 8})  # nothing for this worker to answer
    play({11}, stay={2, 8})
    assert worker._columns == [2, 8, 11]
    ours = worker._trajectory
    expected = take(reference, [2, 8, 11])
    made = ours.sample_index >= 0
    for name in set(LIGHT) - {"sample_index"}:
        assert torch.equal(getattr(ours, name), getattr(expected, name)[: len(made)]), name
    for name, array in expected.inputs.items():
        rows = expected.sample_index[: len(made)][made]
        assert torch.equal(ours.inputs[name][ours.sample_index[made]], array[rows]), name
    play({3})
    assert worker._columns == [3] and worker._trajectory.shape[1] == 1


# -- versions -------------------------------------------------------------------------------


def local_group(**settings) -> LocalGroup:
    """Return a group with one worker of each role."""
    members = {role: (Member(own, SEAT),) for role, own in settings.items()}
    return LocalGroup(WorkerSpecs(ClusterConfig(backend="local"), members))


@pytest.fixture
def group():
    """A rollout worker and an actor worker in one process."""
    settings = {"env": env_settings(), "rollout": policy_settings(), "actor": policy_settings()}
    with local_group(**settings) as made:
        made.start()
        yield made


def same_weights(group):
    acts, learns = (named_weights(group._workers[r].policy, "all") for r in ("rollout", "actor"))
    return all(torch.equal(acts[name], learns[name]) for name in acts)


def test_workers_with_different_policies_are_refused(refused, group, tmp_path):
    """As from two folders at one path on two nodes: other numbers, other settings beside them."""
    actor, rollout = (group._workers[role] for role in ("actor", "rollout"))
    one = tmp_path / "one"
    other = tmp_path / "other"
    group.save(one)
    group.load(one)
    settings, *more = one.glob("*.json")
    parameters = [name for name, _ in actor.policy.named_parameters()]
    assert set(actor.checksums()) == {*parameters, settings.name, *(file.name for file in more)}
    with torch.no_grad():  # one number, and the order of two rows
        rollout.policy.log_std[0] += 1e-6
        rollout.policy.body[0].weight[:2] = rollout.policy.body[0].weight[:2].flip(0)
    with refused(WorkerError, "rollout worker 0", "actor worker 0", "body.0.weight", "log_std"):
        group._check_same_policies()
    shutil.copytree(one, other)
    (other / "README.md").write_text("1")
    rollout.load(str(other))
    group._check_same_policies()
    (other / settings.name).write_text(f"{settings.read_text()} ")
    with refused(WorkerError, settings.name):
        group._check_same_policies()


def test_a_group_with_different_initial_policies_is_refused(refused, tmp_path):
    """Drawn, and by other numbers: an unkeyed draw would do the same."""
    group = local_group(
        rollout=policy_settings(seed=2), actor=policy_settings(seed=1), env=env_settings()
    )
    with refused(WorkerError, "rollout worker 0", "actor worker 0", "actor.model.model_path"):
        group.start()


def test_a_group_starts_with_the_actors_weights(group):
    with torch.no_grad():
        group._workers["actor"].policy.log_std += 1
    assert not same_weights(group)
    group.sync()
    assert same_weights(group)
    interact, rollout = jobs()
    (_,), (summary,) = group.converse(interact, rollout)
    assert summary.weights == group.version() == 0


def test_stale_weights_do_not_act(refused, group, tmp_path):
    group.save(tmp_path)
    group._call_actors("load", path=str(tmp_path))  # a change, as an update is
    with refused(WorkerError, "version 1", "version 0"):
        group.converse(*jobs())
    group.sync()
    (_,), (summary,) = group.converse(*jobs())
    assert summary.weights == 1


def test_a_policy_that_was_loaded_waits_for_the_actors_weights(refused, group, tmp_path):
    group.save(tmp_path)
    group.load(tmp_path)
    with refused(WorkerError, "version 1"):
        group.converse(*jobs())
    group.sync()
    group.converse(*jobs())


def test_a_transfer_that_fails_leaves_no_weights_to_act_with(refused, group):
    actor = group._workers["actor"].policy
    actor.register_buffer("extra", torch.zeros(3))
    with refused(WorkerError, "extra"):
        group.sync()
    with refused(WorkerError):
        group.converse(*jobs())
    del actor.extra
    group.sync()
    group.converse(*jobs())


def test_a_missing_weight_is_refused(refused, group):
    del group._workers["actor"].policy.log_std
    with refused(WorkerError, "log_std"):
        group.sync()


def test_a_fused_group_has_nothing_to_send(tmp_path):
    with local_group(**{"env": env_settings(), "rollout+actor": policy_settings()}) as group:
        group.start()
        group.save(tmp_path)
        group.load(tmp_path)  # once: rollout and actor are one
        assert group.version() == 1
        interact, rollout = jobs()
        (_,), (summary,) = group.converse(interact, rollout)
        assert summary.weights is None
        before = group._workers["rollout+actor"]._trajectory
        group.send_trajectory()
        assert group._workers["rollout+actor"]._trajectory is before


@pytest.mark.parametrize("recomputes", [False, True])
def test_recomputing_activations_returns_freed_memory(recomputes, monkeypatch: pytest.MonkeyPatch):
    sizes = []
    monkeypatch.setattr("rlcore.utils.malloc.set_mmap_threshold", sizes.append)
    monkeypatch.setattr(ToyPolicy, "set_checkpointing", lambda *_: None, raising=False)
    settings = policy_settings()
    fsdp = replace(settings.actor.fsdp_config, gradient_checkpointing=recomputes)
    actor = replace(settings.actor, fsdp_config=fsdp)
    grouped = GRPOConfig(group_size=2, gamma=1.0)
    target = load_plugins().get("algorithm", "grpo").spec.target
    worker = ActorWorker(replace(settings, actor=actor, algorithm=grouped, algorithm_target=target))
    worker.start()
    assert worker.learner is worker.learner  # made once
    assert sizes == [2**20] * recomputes
