"""Collections are played in portions, so that progress is shown and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from internals import compose
from rlcore_testing.toy_env import ToyEnv

from rlcore.demonstrations.safetensors_format import DemonstrationSet
from rlcore.training import collect
from rlcore.training.assembly import assemble

TOY = ["env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local"]


@pytest.fixture
def collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple]:
    """`collected(envs)` returns the episodes that were kept and the sizes of the portions."""
    asked: list[int] = []
    demonstrate = ToyEnv.demonstrate

    def counted(self, episodes, **settings):
        asked.append(len(episodes))
        return demonstrate(self, episodes, **settings)

    monkeypatch.setattr(ToyEnv, "demonstrate", counted)

    def run(envs: int) -> tuple[list, list[int]]:
        asked.clear()
        # noise lets attempts fail, so that later candidates are needed
        words = ["collect.episodes_per_task=5", "collect.action_noise=1.5"]
        words += [f"env.train.total_num_envs={envs}", f"env.eval.total_num_envs={envs}"]
        words += [f"runner.logger.log_path={tmp_path / str(envs)}"]
        made = DemonstrationSet(collect.run(assemble(compose([*TOY, *words]), collects=True)))
        return [demonstration.episode[:2] for demonstration in made], list(asked)

    return run


@pytest.mark.long
def test_the_kept_episodes_do_not_depend_on_the_portions(collected) -> None:
    (few, small) = collected(2)
    (many, large) = collected(16)
    assert sorted(few) == sorted(many)
    assert max(small) == collect.EPISODES_PER_REQUEST * 2 and sum(small) > len(few)  # some failed
    assert len(large) < len(small)
