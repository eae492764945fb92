"""What a checkpoint needs is tried before anything is learned: no rollout, no demonstrations."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from internals import assemble, compose, train, train_stages
from resume_cases import Failing
from rlcore_prismatic.policy import TokenPolicy
from rlcore_testing.toy_policy import ToyPolicy

from rlcore.contracts.errors import CheckpointError, PolicyError, UserError, WorkerError
from rlcore.learner import networks

SMALL = [
    "env=toy", "cluster.backend=local", "env.train.total_num_envs=4", "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1", "actor.global_batch_size=8", "actor.micro_batch_size=8",
    "runner.max_epochs=1",
]  # fmt: skip
TOY = [*SMALL, "model=toy", "algorithm=ppo"]
VLA = [
    *SMALL, "model=openvla_oft", "algorithm=grpo", "algorithm.group_size=2",
    "actor.model.size=tiny", "actor.model.num_action_chunks=2",
]  # fmt: skip


def started(log_path: Path, *words: str) -> Path:
    train(assemble(compose([*words, f"runner.logger.log_path={log_path}"])))
    return log_path / "run"


def nothing_was_played(run: Path) -> bool:
    """No evaluation, no demonstration, no update; and the trial left nothing behind."""
    played = [*run.glob("evaluations/**/*.parquet"), *run.glob("demonstrations/*")]
    return not played and not (run / "metrics.jsonl").stat().st_size and not left_behind(run)


def left_behind(run: Path) -> list[Path]:
    return [path for path in (run / "checkpoints").iterdir() if path.name.startswith(".")]


def not_written(self: ToyPolicy, path: Path) -> None:
    raise NotImplementedError("saving comes later")


def tied(self: ToyPolicy, path: Path) -> None:
    """As a stranger's model does whose output layer is its embedding: safetensors refuses it."""
    from safetensors.torch import save_file

    weight = torch.ones(2, 2)
    save_file({"embedding": weight, "head": weight}, path / "weights.safetensors")


def another(self: ToyPolicy, path: Path) -> None:
    changed = copy.deepcopy(self)
    with torch.no_grad():
        next(changed.parameters()).add_(1)
    SAVED(changed, path)


def full_disk(self: ToyPolicy, path: Path) -> None:
    raise OSError(28, "No space left on device", str(path))


SAVED = ToyPolicy.save_pretrained


@pytest.mark.parametrize("sft", [True, False])
@pytest.mark.parametrize(
    ("save", "error"),
    [
        (not_written, PolicyError),
        (tied, PolicyError),
        (another, PolicyError),
        (lambda self, path: None, PolicyError),
        (full_disk, CheckpointError),
    ],
)
def test_a_policy_that_cant_be_saved(log_path: Path, monkeypatch, save, error, sft: bool):
    monkeypatch.setattr(ToyPolicy, "save_pretrained", save)
    with pytest.raises(error):
        started(log_path, *TOY, f"sft.enabled={sft}")
    assert nothing_was_played(log_path / "run")


def test_supervised_training_alone_tries_it_too(log_path: Path, monkeypatch):
    from rlcore.training import sft

    monkeypatch.setattr(ToyPolicy, "save_pretrained", not_written)
    words = [*TOY, "sft.enabled=true", f"runner.logger.log_path={log_path}"]
    with pytest.raises(PolicyError, match="saving comes later"):
        sft.run(assemble(compose(words)))
    assert nothing_was_played(log_path / "run")


def test_what_an_algorithm_adds_is_tried(log_path: Path, monkeypatch):
    """Its networks are saved and loaded before the first rollout."""

    def lacking(self, tensors):
        raise CheckpointError("its networks do not load")

    monkeypatch.setattr(networks.Networks, "load_state_dict", lacking)
    words = [*TOY, "sft.enabled=false", "runner.val_before_train=false"]
    with pytest.raises(UserError, match="do not load"):
        started(log_path, *words)
    assert nothing_was_played(log_path / "run")


def test_a_file_that_a_load_needs_is_missing(log_path: Path, monkeypatch):
    saved = TokenPolicy.save_pretrained

    def without_tokenizer(self: TokenPolicy, path: Path) -> None:
        saved(self, path)
        (path / "tokenizer.json").unlink()

    monkeypatch.setattr(TokenPolicy, "save_pretrained", without_tokenizer)
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        started(log_path, *VLA)
    assert nothing_was_played(log_path / "run")


def test_by_default_little_is_lost_and_one_checkpoint_stays(log_path: Path, monkeypatch):
    """A worker dies in the sixteenth of 20 updates: of those before it, the newest even one is
    there."""
    monkeypatch.setattr(train_stages, "update_policy", Failing(train_stages.update_policy, [15]))
    words = ["sft.enabled=false", "runner.val_before_train=false", "runner.max_epochs=20"]
    with pytest.raises(WorkerError):
        started(log_path, *TOY, *words)
    names = [path.name for path in (log_path / "run" / "checkpoints").glob("step_*")]
    assert names == ["step_000014"]
