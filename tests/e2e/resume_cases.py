"""A small run, and functions that resume it and let it fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from internals import Session, SyncLoop, assemble, compose, load, train, train_stages

from rlcore.contracts.errors import WorkerError
from rlcore.plugins.registry import load_plugins

REINFORCE = [
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "algorithm.kl_beta=0.01",  # so that there are reference weights to restore
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=8",
    "env.eval.trials_per_task=3",
    "rollout.forward_batch=4",
    "actor.micro_batch_size=16",
    "actor.global_batch_size=32",
    "actor.optim.lr_warmup_steps=9",
    "runner.max_epochs=4",
    "runner.save_interval=1",
    "cluster.backend=local",
    "cluster.torch_threads=1",  # bitwise only with equally many
]
COMMON = [*REINFORCE, "sft.enabled=true", "sft.max_steps=30", "collect.episodes_per_task=2"]


def play(log_path: Path, name: str, *words: str) -> Path:
    """Train with these words in this process and return the run's folder."""
    names = [f"runner.logger.log_path={log_path}", f"runner.logger.experiment_name={name}"]
    train(assemble(compose([*words, *names])))
    return log_path / name


def go_on(at: Path, *overrides: str) -> None:
    """Resume a run in this process, from its latest checkpoint or the one that is named."""
    run = at.parent.parent if at.parent.name == "checkpoints" else at
    train(assemble(load(run / "config.yaml", [f"runner.resume_dir='{at}'", *overrides])))


def contents(run: Path) -> dict[Path, bytes]:
    """Return what all files of a folder contain."""
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@contextmanager
def plugged_in(plugin: object, name: str = "nosy") -> Iterator[None]:
    """Register a plugin for the duration of a block."""
    manager = load_plugins().manager
    manager.register(plugin, name=name)
    try:
        yield
    finally:
        manager.unregister(plugin)


def fail_in_updates(patch: pytest.MonkeyPatch, *updates: int, step: str = "update") -> None:
    """Let a worker fail before these updates (from 0), once for each; `step` is a method of the
    synchronous loop, or a function that training calls."""
    left = list(updates)

    def fail(session: Session, update: int) -> None:
        if update in left:
            left.remove(update)
            raise WorkerError(f"told to fail in update {update}")

    before_updates(patch, fail, step=step)


def before_updates(
    patch: pytest.MonkeyPatch, act: Callable[[Session, int], None], *, step: str = "update"
) -> None:
    """Call `act(session, update)` before `step` is called, see :func:`fail_in_updates`."""
    holder = SyncLoop if step in vars(SyncLoop) else train_stages
    original = vars(holder)[step]

    def acting(caller: SyncLoop | Session, update: int, *rest: Any) -> Any:
        act(caller.session if isinstance(caller, SyncLoop) else caller, update)
        return original(caller, update, *rest)

    patch.setattr(holder, step, acting)
