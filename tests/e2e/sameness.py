"""What two runs are compared by: everything they leave behind but times."""

from __future__ import annotations

from pathlib import Path

import torch
from internals import load_checkpoint, read_metrics
from rlcore_tools.report.sameness import untimed
from safetensors.torch import load_file

from rlcore.runs.tables import read_results


def assert_same(one: Path, other: Path) -> None:
    """Metrics, weights, optimizer state, counters and all evaluated episodes, to the bit."""
    assert numbers(one) == numbers(other)
    ours, theirs = tensors(one), tensors(other)
    assert ours.keys() == theirs.keys() and ours
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    mine, its = load_checkpoint(one), load_checkpoint(other)
    assert mine.step == its.step
    assert mine.state["totals"] == its.state["totals"]
    assert (mine.path / "learner.json").read_text() == (its.path / "learner.json").read_text()
    assert evaluations(one) == evaluations(other)


def numbers(run: Path) -> list[dict[str, float | None]]:
    """Lines of `metrics.jsonl`, without what depends on the clock."""
    return untimed(read_metrics(run / "metrics.jsonl"))


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """All tensors of the last checkpoint, policy and learner, by file and name."""
    folder = load_checkpoint(run).path
    return {
        f"{file.relative_to(folder)}:{name}": array
        for file in sorted(folder.glob("**/*.safetensors"))
        for name, array in load_file(file).items()
    }


def evaluations(run: Path) -> dict[str, list[object]]:
    """Rows of each evaluation, by its label."""
    return {path.stem: list(read_results(path)) for path in sorted(run.glob("eval/*.parquet"))}
