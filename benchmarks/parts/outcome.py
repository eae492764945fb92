"""A run's numbers, and whether two runs came to the very same ones."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open

from rlcore.runs.checkpoint import load_checkpoint
from rlcore.runs.tables import read_results
from rlcore.runs.trackers import read_metrics


def success(run: Path) -> float:
    """Success rate of the evaluation after training."""
    results = read_results(run / "eval" / "after.parquet")
    return sum(result.success for result in results) / len(results)


def differences(run: Path, whole: Path) -> list[str]:
    """What differs from the other run: metrics (times aside), evaluation, weights, optimizer."""
    parts = {
        "metrics": lambda folder: [_numbers(line) for line in read_metrics(folder)],
        "evaluation": lambda folder: read_results(folder),
        "weights": _tensors,
        "optimizer": _tensors,
    }
    saved, other = load_checkpoint(run).path, load_checkpoint(whole).path
    files = {
        "metrics": (run / "metrics.jsonl", whole / "metrics.jsonl"),
        "evaluation": (run / "eval/after.parquet", whole / "eval/after.parquet"),
        "weights": (saved / "actor/model.safetensors", other / "actor/model.safetensors"),
        "optimizer": (saved / "learner.safetensors", other / "learner.safetensors"),
    }
    return [
        name for name, (mine, theirs) in files.items() if parts[name](mine) != parts[name](theirs)
    ]


def _numbers(line: dict[str, float | None]) -> dict[str, float | None]:
    return {
        name: value
        for name, value in line.items()
        if not name.startswith("time") and "per_second" not in name
    }


def _tensors(file: Path) -> dict[str, bytes]:
    """Bytes of each tensor, so that equal means to the bit."""
    with safe_open(file, framework="np") as tensors:
        return {name: tensors.get_tensor(name).tobytes() for name in tensors.keys()}  # noqa: SIM118
