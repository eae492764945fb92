"""An evaluation stays with its checkpoint and can be had again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from internals import assemble, compose, find_checkpoint, train

from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError, VerificationError
from rlcore.files import digests
from rlcore.files.digests import seal
from rlcore.runs.tables import read_results


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = tmp_path_factory.mktemp("logs")
    train(
        assemble(
            compose(
                [
                    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local"),
                    *(
                        "runner.max_epochs=2",
                        "runner.save_interval=1",
                        "runner.val_before_train=false",
                    ),
                    *("env.eval.trials_per_task=3", f"runner.logger.log_path={logs}"),
                ]
            )
        )
    )
    return logs / "run"


def test_the_last_checkpoint_keeps_its_evaluation(run: Path):
    kept = read_results(find_checkpoint(run) / "evaluation.parquet")
    assert kept == read_results(run / "eval" / "after.parquet") and len(kept) == 12
    facts = json.loads((find_checkpoint(run) / "evaluation.json").read_text())
    assert facts["protocol"]["trials"]["reach-up"] == [1000, 1001, 1002]
    assert facts["seed"] == 0 and "rlcore" in facts["versions"]


def test_it_can_be_had_again(run: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", str(run), "--verify"]) == 0
    assert "verified: all 12 episodes came out as before" in capsys.readouterr().out


def test_an_episode_that_came_out_otherwise(run: Path, capsys: pytest.CaptureFixture[str]):
    path = find_checkpoint(run) / "evaluation.parquet"
    whole = path.read_bytes()
    table = pq.read_table(path)
    flipped = [not value.as_py() if row == 5 else value.as_py()
               for row, value in enumerate(table["success"])]  # fmt: skip
    at = table.column_names.index("success")
    pq.write_table(table.set_column(at, "success", [flipped]), path)
    try:
        code = main(["eval", str(run), "--verify"])
    finally:
        path.write_bytes(whole)
    row = read_results(path)[5]
    assert code == VerificationError.exit_code
    said = capsys.readouterr().err
    assert "1 of 12 episodes came out differently, in 1 of them success changed" in said
    assert f"{row.task} trial {row.trial}" in said


@pytest.mark.quick(1)
@pytest.mark.parametrize("rows", [[0, 1, 2], [*range(12), 0], [0, 0, *range(2, 12)]])
def test_other_episodes_than_those_of_the_protocol(run: Path, capsys, rows: list[int]):
    path = find_checkpoint(run) / "evaluation.parquet"
    whole = path.read_bytes()
    pq.write_table(pq.read_table(path).take(rows), path)
    try:
        code = main(["eval", str(run), "--verify"])
    finally:
        path.write_bytes(whole)
    said = capsys.readouterr()
    assert code == CheckpointError.exit_code
    assert f"it holds {len(rows)} episodes where its protocol has 12" in said.err
    assert "evaluate (verify)" not in said.out  # before it is played


@pytest.mark.parametrize("text", ["[1]", "{}", '{"versions": [1]}', "[" * 9999])
def test_facts_of_something_else(run: Path, capsys, text: str):
    path = find_checkpoint(run) / "evaluation.json"
    whole = path.read_bytes()
    path.write_text(text)
    try:
        code = main(["eval", str(run), "--verify"])
    finally:
        path.write_bytes(whole)
    assert code == CheckpointError.exit_code
    assert "evaluation.json is damaged" in capsys.readouterr().err


def test_another_protocol_is_not_compared(run: Path, capsys: pytest.CaptureFixture[str]):
    code = main(["eval", str(run), "env.eval.max_episode_steps=9", "--verify"])
    assert code == VerificationError.exit_code
    assert "protocol differs" in capsys.readouterr().err


def test_what_can_not_be_verified(run: Path, capsys: pytest.CaptureFixture[str]):
    first = run / "checkpoints" / "step_000001"
    assert main(["eval", str(first), "--verify"]) == CheckpointError.exit_code
    assert "no evaluation is stored with" in capsys.readouterr().err
    assert main(["eval", "env=toy", "--verify"]) == 2
    assert "which run should be verified?" in capsys.readouterr().err


def test_large_files_are_compared_with_their_digests(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    own = Path(shutil.copytree(run, tmp_path / "own"))
    file = find_checkpoint(own) / "learner.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    monkeypatch.setattr(digests, "READ_ALWAYS", file.stat().st_size)
    resume = ["resume", str(own), "runner.max_epochs=3", "--cfg=job"]
    assert main(resume) == 0
    for verified in ([*resume, "--verify"], ["eval", str(own), "--verify"]):
        assert main(verified) == CheckpointError.exit_code
        said = " ".join(capsys.readouterr().err.split())
        assert "learner.safetensors is damaged or incomplete (its sha256 is" in said
    shutil.copytree(find_checkpoint(run) / "actor", own / "sft")
    seal(own / "sft", seed=0)
    (own / "sft" / "model.safetensors").write_bytes(b"")
    shutil.rmtree(own / "checkpoints")
    assert main([*resume, "--verify"]) == CheckpointError.exit_code
    assert "sft/model.safetensors is damaged" in " ".join(capsys.readouterr().err.split())
