"""How `rlcore replay` changes the configuration of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

from internals import compose, load, to_yaml
from rlcore_tools.cli.replay import REPLAY

from rlcore.api.replay import simulator_overrides


def test_simulators_are_in_this_process_but_for_those_of_another_interpreter(
    tmp_path: Path,
) -> None:
    run = tmp_path / "config.yaml"
    elsewhere = f"env.eval.python={sys.executable}"
    run.write_text(to_yaml(compose(["env=metaworld", "model=pi0", "algorithm=ppo", elsewhere])))
    one, none = "env.eval.num_processes=1", "env.eval.num_processes=0"
    assert list(simulator_overrides(load(run, trust=True))) == ["env.train.num_processes=0", one]
    assert list(simulator_overrides(load(run, ["env.eval.python=null"], trust=True))) == [
        "env.train.num_processes=0",
        none,
    ]


def test_an_episode_of_training_is_played_on_the_env_of_training() -> None:
    for phase, trains in (("eval", False), ("train", True)):
        request = SimpleNamespace(options={"phase": phase})
        assert REPLAY.plays_train(request) is trains  # type: ignore[arg-type]
