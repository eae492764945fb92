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
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parent))
from sharded_cases import CASES, HERE, OPTIM, kept, run

SECONDS = 1500.0
STRATEGIES = ["whole", "host"]
FOUR = ["hybrid", "pi0-uneven"]
OURS = ("pi0", "smolvla", "open", "oft")
MODELS = [name for name in CASES if name.startswith(OURS) and name not in FOUR]
GO_ON = ["reference", "pi0-lora", "oft-lora"]
FP32 = 2.0**-24
BF16 = 2.0**-9  # half a unit in the last place of a number near 1
ROUNDINGS = 4
Results = dict[str, list[dict[str, Any]]]


def together(folder: Path, size: int, names: Sequence[str]) -> Results:
    """What came out of cases on `size` ranks, by case and rank. One group of processes makes all of
    them: starting it takes longer than most cases."""
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


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the groups leave their checkpoints for each other."""
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def of_two(place: Path) -> Results:
    """What two ranks made, some of it from where one process left off."""
    for name in GO_ON:
        run(name, "keep", folder=place)
    goes_on = [f"{name}:{how}" for name in GO_ON for how in ("keep", "resume-1")]
    return together(place, 2, [*STRATEGIES, *MODELS, *goes_on])


@pytest.fixture(scope="module")
def of_four(place: Path, of_two: Results) -> Results:
    """What four ranks made, some of it from where two left off."""
    goes_on = [f"{name}:{how}" for name in GO_ON for how in ("keep", "resume-2")]
    return together(place, 4, [*FOUR, *goes_on])


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
    for expected, other in pairs:
        torch.testing.assert_close(other, expected, rtol=0, atol=steps * error)
    for rank in there:
        assert [m["train/actor/optimizer_steps"] for m in rank["metrics"]] == [
            m["train/actor/optimizer_steps"] for m in alone["metrics"]
        ]
        assert rank["metrics"] == there[0]["metrics"]


def require_equal(first: dict[str, Any], other: dict[str, Any]) -> None:
    """To the bit: weights, moments and metrics."""
    assert (
        first["metrics"] == other["metrics"] and first["weights"].keys() == other["weights"].keys()
    )
    for name, weight in first["weights"].items():
        assert torch.equal(weight, other["weights"][name]), name
    pairs = zip(first["moments"], other["moments"], strict=True)
    assert first["moments"] and all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.long
def test_ranks_with_many_rows_few_and_none(tmp_path):
    """With epochs, micro-batches, a KL to weights that have moved, a critic's warm-up; parameters
    of fewer rows than there are ranks, tied, frozen and in bf16; a critic trained alone; a
    checkpoint of three ranks that one goes on with; and supervised training with whole and divided
    weights."""
    names = ["uneven", "uneven:copies", "warm-up", "reference:keep", "tied:keep"]
    names += ["narrow:keep", "head", "frozen", "half-bf16", "summed-bf16", "kept"]
    taught = ["whole:supervised", "whole:supervised-copies"]
    results = together(tmp_path, 3, [*names, *taught, "reference:offload"])
    for stayed, left in zip(results["reference:keep"], results["reference:offload"], strict=True):
        require_equal(stayed, left)
    alone = run("whole", "supervised")
    for rank in (rank for name in taught for rank in results[name]):
        assert rank["losses"] == pytest.approx(alone["losses"], rel=1e-5)
        for key, weight in alone["weights"].items():
            torch.testing.assert_close(rank["weights"][key], weight, rtol=0, atol=1e-5)
    for name in names:
        case = name.partition(":")[0]
        require_same(case, run(case), results[name])
    files = sorted(path.name for path in kept(tmp_path, "reference", 3).glob("learner*"))
    assert files == [
        *(f"learner-0000{part}-of-00003.safetensors" for part in (1, 2, 3)),
        "learner.json",
    ]
    for name in ("reference", "tied", "narrow"):  # the third rank holds nothing of the last one
        require_goes_on(name, [run(name, "resume-3", folder=tmp_path)])
    saved = torch.load(kept(tmp_path, "tied", 3) / "weights.pt")
    for first, other in (("stack.0.linear", "stack.1.linear"), ("stack.2.linear", "rest")):
        assert saved[f"{first}.weight"].data_ptr() == saved[f"{other}.weight"].data_ptr()


def require_goes_on(name: str, there: Sequence[dict[str, Any]]) -> None:
    """Ranks that made the second update came to what one process does that made both."""
    alone = run(name)
    require_same(name, alone, [{**rank, "metrics": alone["metrics"]} for rank in there])


def test_the_reference_weights_are_those_of_the_start():
    """What the case of a KL stands on: it is not zero in the second update."""
    first, second = run("reference")["metrics"]
    assert first["train/actor/kl_reference"] != second["train/actor/kl_reference"] != 0.0


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [*STRATEGIES, *MODELS])
def test_two_ranks(of_two, name):
    """What was gathered stays until the backward pass, or lies in host memory; and each model of
    ours: all weights, adapters, the expert alone, bf16 with parts in fp32, a critic behind the VLM
    or none. π0 recomputes activations."""
    require_same(name, run(name), of_two[name])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", FOUR)
def test_four_ranks(of_four, name):
    """Two copies of the parameters; ranks without a row."""
    require_same(name, run(name), of_four[name])


LEAVING = ["pi0-lora", "pi0-expert", "pi0-vlm-critic", "openvla-lora", "oft"]


@pytest.mark.quick(1)  # those of pi0 take up to half a minute
@pytest.mark.parametrize("name", ["reference", "pi0-lora", "pi0-bf16"])
def test_offloading_between_updates_changes_nothing(name):
    require_equal(run(name), run(name, "offload"))


@pytest.mark.long
def test_offloading_shards_between_updates_changes_nothing(tmp_path):
    """Adapters, the expert alone, a critic, reference weights; parameters that two divide."""
    results = together(tmp_path, 2, [*LEAVING, *(f"{name}:offload" for name in LEAVING)])
    for name in LEAVING:
        for stayed, left in zip(results[name], results[f"{name}:offload"], strict=True):
            require_equal(stayed, left)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", GO_ON)
def test_a_checkpoint_goes_on_with_other_numbers_of_ranks(place, of_two, of_four, name):
    """1 -> 2 -> 4 -> 1: whole to divided, divided among more, and back."""
    require_goes_on(name, of_two[f"{name}:resume-1"])
    require_goes_on(name, of_four[f"{name}:resume-2"])
    require_goes_on(name, [run(name, "resume-4", folder=place)])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name in GO_ON if name in MODELS])
def test_a_saved_policy_is_that_of_one_process(place, of_two, of_four, name):
    """Adapters are merged into weights that were divided. One step of AdamW moves an entry by up to
    lr = 1e-3 whatever the rounding, on both sides of an adapter."""
    one, two, four = (kept(place, name, size) / "policy" for size in (1, 2, 4))
    files = sorted(file.relative_to(one) for file in one.rglob("*.safetensors"))
    assert files
    for file in files:
        weights = load_file(one / file)
        for other in (load_file(two / file), load_file(four / file)):
            assert weights.keys() == other.keys()
            for key, weight in weights.items():
                torch.testing.assert_close(
                    other[key].float(), weight.float(), rtol=2 * BF16, atol=4e-3
                )
