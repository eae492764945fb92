"""Two ranks in processes of their own, each with half the columns, against one with all."""

from dataclasses import fields

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

from rlcore.learner import ranks
from rlcore.rollout.trajectory import Trajectory


def some_columns(trajectory: Trajectory, chosen: list[int]) -> Trajectory:
    """These columns, with their own inputs, and no more rows than they need."""
    light = {f.name: getattr(trajectory, f.name)[:, chosen].clone() for f in fields(Trajectory)
             if f.name not in ("inputs", "replay")}
    used = int((light["sample_index"] >= 0).any(1).sum())
    light = {name: array[:used] for name, array in light.items()}
    made = light["sample_index"] >= 0
    rows = light["sample_index"][made]
    light["sample_index"][made] = torch.arange(len(rows))
    return Trajectory(**light, inputs={n: x[rows] for n, x in trajectory.inputs.items()},
                      replay={n: x[rows] for n, x in trajectory.replay.items()})


def train(rank, size, url, learner, policy, trajectory, columns, answers):
    torch.set_num_threads(1)
    if rank:  # other ranks take rank 0's weights when they join
        with torch.no_grad():
            policy.mean.weight.zero_()
    ranks.join(policy, url=url, rank=rank, world_size=size)
    metrics = learner.update(some_columns(trajectory, columns[rank]), 0)
    answers.put((rank, metrics, [p.detach().tolist() for p in policy.parameters()]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_two_ranks_equal_one(bench, acted, tmp_path):
    settings = {"actor": {"global_batch_size": 16, "micro_batch_size": 4}, "update_epoch": 2,
                "optim": {"lr": 1e-2, "value_lr": 1e-2, "adam_eps": 1e-4}}
    alone, shared = bench(**settings), bench(**settings)
    trajectory = acted(alone.policy, chunks=8, columns=7)
    context = mp.get_context("fork")
    answers = context.Queue()
    columns = [[0, 3, 5, 6], [1, 2, 4]]  # dealt out unevenly, out of order
    processes = [
        context.Process(target=train, args=(
            rank, 2, f"file://{tmp_path}/meet", shared.learner, shared.policy, trajectory,
            columns, answers))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    results = sorted((answers.get(timeout=60) for _ in processes), key=lambda answer: answer[0])
    for process in processes:
        process.join(timeout=30)
        assert process.exitcode == 0
    expected = alone.learner.update(trajectory, 0)
    for _, metrics, weights in results:
        assert metrics == pytest.approx(expected, rel=1e-3, abs=1e-6)
        for mine, theirs in zip(alone.policy.parameters(), weights, strict=True):
            torch.testing.assert_close(mine.detach(), torch.tensor(theirs), rtol=1e-4, atol=1e-6)
    assert results[0][2] == results[1][2]  # the ranks themselves agree to the bit


def test_alone_nothing_is_exchanged():
    parameter = nn.Parameter(torch.zeros(2))
    ranks.add_gradients([parameter])
    assert not ranks.several() and parameter.grad is None
