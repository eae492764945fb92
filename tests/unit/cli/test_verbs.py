"""A command checks a configuration once, and hands on what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.checks import run
from rlcore.cli.main import main
from rlcore.plugins.registry import load_plugins
from rlcore.training.protocol.rows import protocol_spec

TOY = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1"),
    *("env.train.total_num_envs=4", "env.eval.total_num_envs=4", "env.eval.trials_per_task=1"),
    "cluster.component_placement={env: '0:0', rollout: '0:0', actor: '0:0'}",
    *("actor.global_batch_size=16", "actor.micro_batch_size=16"),
]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The episodes' length of each configuration that is checked."""
    found = []
    gather = run.gather_facts

    def gather_facts(config, *others):
        found.append(config.env.eval.max_episode_steps)
        return gather(config, *others)

    monkeypatch.setattr(run, "gather_facts", gather_facts)
    return found


def test_each_configuration_is_checked_once(checked: list[str], tmp_path: Path):
    place = (f"runner.logger.log_path={tmp_path}", "runner.logger.experiment_name=run")
    for words in (["train", *TOY, *place, "--dry-run"], ["train", *TOY, *place]):
        checked.clear()
        assert main(words) == 0
        assert len(checked) == 1
    rows = protocol_spec(load_plugins(), "toy_haste").groups.values()
    for words in (["--dry-run"], []):  # a dry run looks at the rows of a protocol too
        checked.clear()
        assert main(["eval", str(tmp_path / "run"), "protocol=toy_haste", *words]) == 0
        assert len(checked) == 1 + sum(len(group) for group in rows)
