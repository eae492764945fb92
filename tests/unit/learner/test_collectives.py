"""Ranks in processes of their own, each with some of the columns or none, against one with all."""

import json
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import nn

from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import collectives

RANK_MAIN = Path(__file__).parent / "rank_main.py"
SECONDS = 800.0


def some_columns(trajectory: Trajectory, chosen: list[int]) -> dict:
    """These columns, with their own inputs, and no more rows than they need."""
    light = {
        f.name: getattr(trajectory, f.name)[:, chosen].clone()
        for f in fields(Trajectory)
        if f.name not in ("inputs", "replay")
    }
    used = int((light["sample_index"] >= 0).any(1).sum())
    light = {name: array[:used] for name, array in light.items()}
    made = light["sample_index"] >= 0
    rows = light["sample_index"][made]
    light["sample_index"][made] = torch.arange(len(rows))
    return {
        **light,
        "inputs": {n: x[rows] for n, x in trajectory.inputs.items()},
        "replay": {n: x[rows] for n, x in trajectory.replay.items()},
    }


@pytest.mark.long
def test_three_ranks_equal_one(bench, acted, tmp_path):
    # the settings of rank_main.py
    alone = bench(
        actor={"global_batch_size": 16, "micro_batch_size": 4},
        update_epoch=2,
        optim={"lr": 1e-2, "value_lr": 1e-2, "adam_eps": 1e-4},
    )
    trajectory = acted(alone.policy, chunks=8, columns=7)
    # dealt out unevenly, out of order; the third rank gathered nothing, so it has no file
    columns = [[0, 3, 5, 6], [1, 2, 4]]
    for rank, chosen in enumerate(columns):
        torch.save(some_columns(trajectory, chosen), tmp_path / f"{rank}.pt")
    url = f"file://{tmp_path}/meet"
    processes = [
        subprocess.Popen([sys.executable, str(RANK_MAIN), str(rank), "3", url, str(tmp_path)])
        for rank in range(3)
    ]
    try:
        assert [process.wait(timeout=SECONDS) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    expected = alone.learner.update(trajectory, 0)
    for result in results:
        assert result["metrics"] == pytest.approx(expected, rel=1e-3, abs=1e-6)
        for mine, theirs in zip(alone.policy.parameters(), result["weights"], strict=True):
            torch.testing.assert_close(mine.detach(), torch.tensor(theirs), rtol=1e-4, atol=1e-6)
    refused = {result["refused"] for result in results}  # all say the same, so that none waits
    assert len(refused) == 1 and "log-probs of evaluate are" in refused.pop()
    weights = [result["weights"] for result in results]
    assert weights[0] == weights[1] == weights[2]  # the ranks agree to the bit


@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), ("cuda", "cpu:gloo,cuda:nccl")])
def test_ranks_on_accelerators_also_exchange_tensors_of_the_host(monkeypatch, device, backend):
    """NCCL alone refuses tensors of the host, such as parts that are offloaded."""
    asked = []
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda kind, **_: asked.append(kind)
    )
    collectives.join_process_group(
        torch.device(device), url="tcp://host:1", rank=0, world_size=2, timeout=1.0
    )
    assert asked == [backend]


WAITS = """
import sys, time, torch
from rlcore.learner import collectives as ranks
rank = int(sys.argv[1])
ranks.meet(torch.device("cpu"), url=sys.argv[2], rank=rank, world_size=2, timeout=3600.0)
print(ranks.total(1.0), flush=True)
time.sleep(3600.0 * rank)
ranks.total(1.0)
"""


@pytest.mark.long
def test_the_death_of_a_rank_ends_the_wait_of_its_peer(tmp_path):
    """Though each would wait an hour. `pytest -m long -s` prints the seconds."""
    command = [sys.executable, "-c", WAITS]
    processes = [
        subprocess.Popen(
            [*command, str(rank), f"file://{tmp_path}/meet"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert [process.stdout.readline() for process in processes] == ["2.0\n", "2.0\n"]
        processes[1].kill()
        begin = time.monotonic()
        _, error = processes[0].communicate(timeout=SECONDS)
        print(f"freed {time.monotonic() - begin:.1f} s after its peer died")
    finally:
        for process in processes:
            process.kill()
    assert processes[0].returncode == 1 and "by peer" in error, error  # closed, or reset


def test_alone_nothing_is_exchanged():
    parameter = nn.Parameter(torch.zeros(2))
    collectives.add_gradients([parameter])
    assert not collectives.is_distributed() and parameter.grad is None
