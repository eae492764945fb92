"""A small run, and how it goes on and fails. For the tests of resume and of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from internals import assemble, train

from rlcore.config.compose import load
from rlcore.contracts.errors import WorkerError
from rlcore.plugins.registry import load_plugins
from rlcore.training.session import Session

COMMON = [
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "algorithm.kl_beta=0.01",  # so that there are reference weights to restore
    "sft.enabled=true",
    "sft.max_steps=30",
    "collect.episodes_per_task=2",
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


def go_on(run: Path, *overrides: str) -> None:
    train(assemble(load(run / "config.yaml", [f"runner.resume_dir='{run}'", *overrides])))


@contextmanager
def plugged_in(plugin: object, name: str = "nosy") -> Iterator[None]:
    """The plugin is installed meanwhile."""
    manager = load_plugins().manager
    manager.register(plugin, name=name)
    try:
        yield
    finally:
        manager.unregister(plugin)


class Failing:
    """Stands in for a step of the loop; a worker fails before those updates, once for each."""

    def __init__(self, step: Callable[..., Any], updates: Iterable[int]) -> None:
        self._step = step
        self._updates = list(updates)

    def __call__(self, session: Session, update: int, *rest: Any) -> Any:
        if update in self._updates:
            self._updates.remove(update)
            raise WorkerError(f"told to fail in update {update}")
        return self._step(session, update, *rest)
