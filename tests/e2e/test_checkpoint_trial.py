"""A checkpoint is written and loaded before the first rollout and the first demonstration."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from internals import assemble, compose, sft
from resume_cases import fail_in_updates, play
from rlcore_prismatic.policy import TokenPolicy
from rlcore_testing.toy_policy import ToyPolicy

from rlcore.contracts.errors import CheckpointError, PolicyError, WorkerError
from rlcore.learner import networks

SMALL = [
    "env=toy", "cluster.backend=local", "env.train.total_num_envs=4", "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1", "actor.global_batch_size=8", "actor.micro_batch_size=4",
    "runner.max_epochs=1",
]  # fmt: skip
TOY = [*SMALL, "model=toy", "algorithm=ppo", "runner.logger.experiment_name=run"]
VLA = [
    *SMALL, "model=openvla_oft", "algorithm=grpo", "algorithm.group_size=2",
    "actor.model.size=tiny", "actor.model.num_action_chunks=2",
]  # fmt: skip


def start(log_path: Path, *words: str) -> Path:
    return play(log_path, "run", *words)


def is_unplayed(run: Path) -> bool:
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


@pytest.mark.parametrize(
    ("save", "error", "sft"),
    [
        (not_written, PolicyError, True),
        (not_written, PolicyError, False),
        (tied, PolicyError, True),
        (another, PolicyError, False),
        (lambda self, path: None, PolicyError, True),
        (full_disk, CheckpointError, False),
    ],
)
def test_a_policy_that_cant_be_saved_plays_nothing(log_path: Path, monkeypatch, save, error, sft):
    monkeypatch.setattr(ToyPolicy, "save_pretrained", save)
    with pytest.raises(error):
        start(log_path, *TOY, f"sft.enabled={sft}")
    assert is_unplayed(log_path / "run")


def test_supervised_training_tries_a_checkpoint_too(log_path: Path, refused, monkeypatch):
    monkeypatch.setattr(ToyPolicy, "save_pretrained", not_written)
    words = [*TOY, "sft.enabled=true", f"runner.logger.log_path={log_path}"]
    with refused(PolicyError, "saving comes later", text=False):
        sft(assemble(compose(words)))
    assert is_unplayed(log_path / "run")


def test_the_networks_of_an_algorithm_are_tried(log_path: Path, refused, monkeypatch):

    def lacking(self, tensors):
        raise CheckpointError("its networks do not load")

    monkeypatch.setattr(networks.Networks, "load_state_dict", lacking)
    words = [*TOY, "runner.val_before_train=false"]
    with refused(CheckpointError, "do not load", text=False):
        start(log_path, *words)
    assert is_unplayed(log_path / "run")


def test_a_missing_file_of_a_saved_policy_is_named(log_path: Path, refused, monkeypatch):
    saved = TokenPolicy.save_pretrained

    def without_tokenizer(self: TokenPolicy, path: Path) -> None:
        saved(self, path)
        (path / "tokenizer.json").unlink()

    monkeypatch.setattr(TokenPolicy, "save_pretrained", without_tokenizer)
    with refused(PolicyError, "tokenizer.json", text=False):
        start(log_path, *VLA)
    assert is_unplayed(log_path / "run")


def test_by_default_every_second_update_is_saved_and_the_last_one_kept(log_path: Path, monkeypatch):
    """A worker dies in the sixteenth of 20 updates."""
    fail_in_updates(monkeypatch, 15)
    words = ["runner.val_before_train=false", "runner.max_epochs=20"]
    with pytest.raises(WorkerError):
        start(log_path, *TOY, *words)
    names = [path.name for path in (log_path / "run" / "checkpoints").glob("step_*")]
    assert names == ["step_000014"]
