"""docs/your-data.md: what it tells to type works, with the file that it shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

import rlcore
from rlcore.cli.main import main

PAGE = Path(__file__).parents[4] / "docs/your-data.md"
QUICK = ("cluster.backend=local", "env.train.total_num_envs=2", "runner.logger.logger_backends=[]")
LEARN = ("sft.max_steps=2", "env.eval.total_num_envs=2", "env.eval.trials_per_task=1")


def is_walk(line: list[str]) -> bool:
    """Whether a line belongs to the walk from a folder to a served policy."""
    return line[0] in ("data", "view", "open-loop", "serve") or "env=data" in line


@pytest.mark.long
def test_the_lines_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    lines = [shlex.split(line) for line in re.findall(r"^    rlcore (.+)$", text, re.MULTILINE)]
    # the first ones are typed in test_walk.py, the last one in test_export.py
    described, mixed, collect, own, _ = (line for line in lines if not is_walk(line))
    assert main([*collect, *QUICK]) == 0
    # without what rlcore says of its own it is somebody's data set
    shutil.copytree("reached", "pots")
    for name in ("rlcore.json", "rlcore_episodes.jsonl"):
        (tmp_path / "pots/meta" / name).unlink()
    info = json.loads((tmp_path / "pots/meta/info.json").read_text())
    info["features"]["action"]["names"] = ["x", "y"]
    (tmp_path / "pots/meta/info.json").write_text(json.dumps(info))
    shown = re.findall(r"```yaml\n(.+?)```", text, re.DOTALL)
    for name, content in zip(("pots.yaml", "both.yaml"), shown, strict=True):
        (tmp_path / name).write_text(content)
    # only a run with an algorithm can be resumed for reinforcement learning
    for number, line in enumerate(([*own, "algorithm=ppo"], described, mixed)):
        name = f"runner.logger.experiment_name=run{number}"
        assert main([*line, *QUICK, *LEARN, name]) == 0
    # what was learned acts, and reinforcement learning goes on with it
    learned = rlcore.load_policy("logs/run0")
    weights = (
        tmp_path / f"logs/run0/{part}/model.safetensors"
        for part in ("sft", "checkpoints/step_000000/actor")
    )
    assert len({file.read_bytes() for file in weights}) == 1
    assert Path(learned.config.actor.model.model_path or "").parent.name == "step_000000"
    assert main(["resume", "logs/run0", "runner.max_epochs=1"]) == 0
    assert rlcore.open_run("logs/run0").checkpoint().step == 1
    (train,) = re.findall(r"`rlcore (train [^`]*/sft)`", " ".join(text.split()))
    words = shlex.split(train.replace("RUN", "logs/run1"))
    name = "runner.logger.experiment_name=run3"
    assert main([*words, *QUICK, *LEARN[1:], "runner.max_epochs=1", name]) == 0
    assert rlcore.open_run("logs/run3").checkpoint().step == 1
