"""An evaluation stays with its checkpoint and can be had again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from internals import find_checkpoint
from resume_cases import play

from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError, VerificationError
from rlcore.files import digests
from rlcore.files.digests import seal
from rlcore.runs.tables import read_results


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = tmp_path_factory.mktemp("logs")
    words = [
        *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=2"),
        *("runner.save_interval=1", "runner.val_before_train=false", "env.eval.trials_per_task=3"),
    ]
    return play(logs, "run", *words)


@contextmanager
def replaced(file: Path) -> Iterator[None]:
    """Restore a file after a block."""
    content = file.read_bytes()
    try:
        yield
    finally:
        file.write_bytes(content)


def test_the_last_checkpoint_keeps_its_evaluation(run: Path):
    kept = read_results(find_checkpoint(run) / "evaluation.parquet")
    assert kept == read_results(run / "eval" / "after.parquet") and len(kept) == 12
    facts = json.loads((find_checkpoint(run) / "evaluation.json").read_text())
    assert facts["protocol"]["trials"]["reach-up"] == [1000, 1001, 1002]
    assert facts["seed"] == 0 and "rlcore" in facts["versions"]


def test_an_evaluation_is_verified(run: Path, capsys):
    assert main(["eval", str(run), "--verify"]) == 0
    assert "verified: all 12 episodes" in capsys.readouterr().out


def test_a_verification_names_episodes_that_differ(run: Path, capsys):
    path = find_checkpoint(run) / "evaluation.parquet"
    table = pq.read_table(path)
    successes = table["success"].to_pylist()
    successes[5] = not successes[5]
    at = table.column_names.index("success")
    with replaced(path):
        pq.write_table(table.set_column(at, "success", [successes]), path)
        assert main(["eval", str(run), "--verify"]) == VerificationError.exit_code
    row = read_results(path)[5]
    error = capsys.readouterr().err
    assert "1 of 12 episodes" in error and f"{row.task} trial {row.trial}" in error


@pytest.mark.quick(1)
@pytest.mark.parametrize("rows", [[0, 1, 2], [*range(12), 0], [0, 0, *range(2, 12)]])
def test_a_verification_refuses_other_episodes_before_it_plays(run: Path, capsys, rows: list[int]):
    path = find_checkpoint(run) / "evaluation.parquet"
    table = pq.read_table(path).take(rows)
    with replaced(path):
        pq.write_table(table, path)
        assert main(["eval", str(run), "--verify"]) == CheckpointError.exit_code
    output = capsys.readouterr()
    assert f"{len(rows)} episodes" in output.err and "12" in output.err
    assert "evaluate (verify)" not in output.out


@pytest.mark.parametrize("text", ["[1]", "{}", '{"versions": [1]}', "[" * 9999])
def test_a_verification_refuses_damaged_facts(run: Path, capsys, text: str):
    path = find_checkpoint(run) / "evaluation.json"
    with replaced(path):
        path.write_text(text)
        assert main(["eval", str(run), "--verify"]) == CheckpointError.exit_code
    assert "evaluation.json is damaged" in capsys.readouterr().err


def test_another_protocol_is_not_compared(run: Path, capsys):
    code = main(["eval", str(run), "env.eval.max_episode_steps=9", "--verify"])
    assert code == VerificationError.exit_code
    assert "protocol differs" in capsys.readouterr().err


def test_a_verification_needs_a_run_and_its_evaluation(run: Path, capsys):
    first = run / "checkpoints" / "step_000001"
    assert main(["eval", str(first), "--verify"]) == CheckpointError.exit_code
    assert "step_000001" in capsys.readouterr().err
    assert main(["eval", "env=toy", "--verify"]) == 2
    assert "error: which run" in capsys.readouterr().err


def test_large_files_are_compared_with_their_digests(
    run: Path, tmp_path: Path, capsys, monkeypatch
):
    own = Path(shutil.copytree(run, tmp_path / "own"))
    file = find_checkpoint(own) / "learner.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    monkeypatch.setattr(digests, "READ_ALWAYS", file.stat().st_size)
    resume = ["resume", str(own), "runner.max_epochs=3", "--cfg=job"]
    assert main(resume) == 0
    for verified in ([*resume, "--verify"], ["eval", str(own), "--verify"]):
        assert main(verified) == CheckpointError.exit_code
        error = capsys.readouterr().err
        assert "learner.safetensors" in error and "sha256" in error
    shutil.copytree(find_checkpoint(run) / "actor", own / "sft")
    seal(own / "sft", seed=0)
    (own / "sft" / "model.safetensors").write_bytes(b"")
    shutil.rmtree(own / "checkpoints")
    assert main([*resume, "--verify"]) == CheckpointError.exit_code
    assert "sft/model.safetensors" in capsys.readouterr().err
