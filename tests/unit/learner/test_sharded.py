"""Ranks that divide the parameters, in processes of their own, against one process with all.

The cases are those of sharded_cases.py: each makes two updates of a recorded batch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from sharded_cases import CASES, HERE, OPTIM, run

SECONDS = 300.0
MODELS = [name for name in CASES if name.startswith(("pi0", "open", "oft"))]
FP32, BF16 = 2.0**-24, 2.0**-9  # half a unit in the last place of a number near 1
ROUNDINGS = 4


def together(folder: Path, size: int, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """What came out of cases on `size` ranks, by case and rank."""
    program = [sys.executable, str(HERE / "sharded_cases.py")]
    processes = [
        subprocess.Popen([*program, str(rank), str(size), str(folder), *names])
        for rank in range(size)
    ]
    try:
        assert [process.wait(timeout=SECONDS) for process in processes] == [0] * size
    finally:
        for process in processes:
            process.kill()
    return {
        name: [torch.load(folder / f"{name}-{size}-{rank}.pt") for rank in range(size)]
        for name in names
    }


def require_same(name: str, alone: dict[str, Any], there: Sequence[dict[str, Any]]) -> None:
    """Weights and moments agree with those of one process, and between ranks to the bit.

    Sums in another order differ by a few roundings u of the clipped gradient's norm c. AdamW moves
    a weight by lr g / (|g| + eps), at most lr / eps times that: in n steps by n lr 4 u c / eps.
    """
    case = CASES[name]
    optim = {**OPTIM, **case.optim}
    steps = sum(metrics["train/actor/optimizer_steps"] for metrics in alone["metrics"])
    assert steps >= 2
    error = ROUNDINGS * (BF16 if "bf16" in name or "lora" in name else FP32) * optim["clip_grad"]
    moved = min(steps * optim["lr"] * min(error / optim["adam_eps"], 2.0), 1.0)
    for key, weight in alone["weights"].items():
        torch.testing.assert_close(there[0]["weights"][key], weight, rtol=0, atol=moved, msg=key)
        for rank in there[1:]:
            assert torch.equal(rank["weights"][key], there[0]["weights"][key]), key
    pairs = zip(alone["moments"], there[0]["moments"], strict=True)
    for one, other in pairs:
        torch.testing.assert_close(other, one, rtol=0, atol=steps * error)
    for rank in there:
        assert [m["train/actor/optimizer_steps"] for m in rank["metrics"]] == [
            m["train/actor/optimizer_steps"] for m in alone["metrics"]
        ]
        assert rank["metrics"] == there[0]["metrics"]


def test_ranks_with_many_rows_few_and_none(tmp_path):
    """With epochs, micro-batches, a KL to weights that have moved, a critic's warm-up; a checkpoint
    of three ranks that one goes on with; and supervised training with whole and divided weights."""
    names = ["uneven", "uneven:copies", "warm-up", "reference:keep"]
    taught = ["whole:supervised", "whole:supervised-copies"]
    results = together(tmp_path, 3, [*names, *taught])
    one = run("whole", "supervised")
    for rank in (rank for name in taught for rank in results[name]):
        assert rank["losses"] == pytest.approx(one["losses"], rel=1e-5)
        for key, weight in one["weights"].items():
            torch.testing.assert_close(rank["weights"][key], weight, rtol=0, atol=1e-5)
    for name in names:
        case = name.partition(":")[0]
        require_same(case, run(case), results[name])
    files = sorted(path.name for path in (tmp_path / "kept").glob("learner*"))
    assert files == [
        *(f"learner-0000{part}-of-00003.safetensors" for part in (1, 2, 3)),
        "learner.json",
    ]
    alone = run("reference")
    resumed = run("reference", "resume", kept=tmp_path / "kept")
    require_same("reference", alone, [{**resumed, "metrics": alone["metrics"]}])


def test_the_reference_weights_are_those_of_the_start():
    """What the case of a KL stands on: it is not zero in the second update."""
    first, second = run("reference")["metrics"]
    assert first["train/actor/kl_reference"] != second["train/actor/kl_reference"] != 0.0


@pytest.mark.long
@pytest.mark.parametrize(("name", "size"), [("whole", 2), ("host", 2), ("hybrid", 4)])
def test_strategies(tmp_path, name, size):
    """What was gathered stays until the backward pass, moments in host memory, two copies."""
    require_same(name, run(name), together(tmp_path, size, [name])[name])


@pytest.mark.long
@pytest.mark.parametrize("group", ["pi0", "openvla", "oft"])
def test_models(tmp_path, group):
    """Each model of ours: all weights, adapters, the expert alone, bf16 with parts in fp32, a
    critic behind the VLM or none. π0 recomputes activations."""
    names = [name for name in MODELS if name.partition("-")[0] == group]
    for name, there in together(tmp_path, 2, names).items():
        require_same(name, run(name), there)


@pytest.mark.long
@pytest.mark.parametrize("name", ["reference", "pi0-lora"])
def test_a_checkpoint_goes_on_with_other_numbers_of_ranks(tmp_path, name):
    """1 -> 2 -> 4 -> 1: whole to divided, divided among more, and back."""
    alone = run(name)
    for before, after in ((1, 2), (2, 4), (4, 1)):
        folder = tmp_path / f"{before}"
        folder.mkdir()
        if before == 1:
            run(name, "keep", kept=folder / "kept")
        else:
            together(folder, before, [f"{name}:keep"])
        if after == 1:
            there = [run(name, "resume", kept=folder / "kept")]
        else:
            there = together(folder, after, [f"{name}:resume"])[f"{name}:resume"]
        for rank in there:
            rank["metrics"] = alone["metrics"]
        require_same(name, alone, there)
