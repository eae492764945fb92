"""`env=data`: a data set alone is enough to learn from, to serve and to export."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from arm_cases import arm, described
from internals import PolicyOptimizer, supervised_phase
from safetensors.torch import load_file

import rlcore
from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import CameraSpec, StateChannel

MODEL = ("model=gaussian", "actor.model.num_action_chunks=3", "actor.model.num_images_in_input=2")
QUICK = ("algorithm=ppo", "cluster.backend=local", "runner.logger.logger_backends=[]")


def learn(folder: Path, *words: str, code: int = 0) -> Path:
    """Train supervised on the data set of `folder`, to that exit code; return the run's folder."""
    where = (f"runner.logger.log_path={folder}/logs", "runner.logger.experiment_name=run")
    short = ("sft.max_steps=8", "sft.val_interval=4", "sft.batch_size=8")
    assert main(["sft", "env=data", *MODEL, *QUICK, *short, *where, *words]) == code
    return folder / "logs/run"


def test_a_policy_is_learned_served_and_exported_from_a_data_set_alone(tmp_path: Path) -> None:
    """Where the data set is gone, the run still says what its policy sees and commands."""
    data = arm(tmp_path / "arm")
    file = described(tmp_path)
    run = learn(tmp_path, f"collect.path={file}")
    history = json.loads((run / "sft.json").read_text())
    assert history["steps"] == 8 and history["val_loss"]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["success_after"] is None and "simulator" in summary["caveat"]
    assert not list((run / "eval").glob("*"))
    data.rename(tmp_path / "gone")
    file.unlink()
    policy = rlcore.load_policy(run)
    spec = policy.env_spec
    assert spec.cameras == (CameraSpec("top", 32, 32), CameraSpec("wrist", 24, 32))
    assert spec.states == (StateChannel("state", 4),)
    assert [(channel.meaning, channel.size, channel.low) for channel in spec.actions] == [
        ("joint_position", 3, -1.6),
        ("gripper", 1, 0.0),
    ]
    assert spec.instructions == ("pick the cube", "open the drawer")
    observation: Any = {
        "cameras": {
            "top": np.zeros((1, 32, 32, 3), np.uint8),
            "wrist": np.zeros((1, 24, 32, 3), np.uint8),
        },
        "states": np.zeros((1, 4), np.float32),
        "task_descriptions": ["pick the cube"],
    }
    assert policy.select_actions(observation).shape == (1, 3, 4)
    assert main(["export", str(run), str(tmp_path / "policy")]) == 0
    recorded = json.loads((tmp_path / "policy/rlcore_env.json").read_text())
    assert recorded["env"] == "data" and list(recorded["cameras"]) == ["top", "wrist"]
    assert main(["report", str(run)]) == 0
    assert "No episode was played" in (run / "report.html").read_text()
    assert main(["runs", "ls", str(tmp_path / "logs")]) == 0


def test_episodes_of_a_data_set_are_not_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, before anything starts; and from a run of it."""
    arm(tmp_path / "arm")
    file = described(tmp_path)
    words = ["env=data", *MODEL, *QUICK, f"collect.path={file}"]
    for command in ("train", "collect"):
        assert main([command, *words, f"runner.logger.log_path={tmp_path}/none"]) == 2
        error = capsys.readouterr().err
        assert error.count("error:") == 1 and "no simulator" in error, command
    assert not (tmp_path / "none").exists()
    run = learn(tmp_path, f"collect.path={file}")
    capsys.readouterr()
    assert main(["eval", str(run)]) == 2
    error = capsys.readouterr().err
    assert "no simulator" in error and "Traceback" not in error


def test_the_data_set_must_be_named(refused: Callable[..., Any]) -> None:
    with refused(ConfigError, "collect.path", "describe"):
        rlcore.train(rlcore.compose("env=data", *MODEL, *QUICK))


def test_the_configuration_keeps_what_the_data_set_says(tmp_path: Path) -> None:
    arm(tmp_path / "arm")
    file = described(tmp_path)
    config = rlcore.compose("env=data", *MODEL, *QUICK, f"collect.path={file}")
    assert config.env.train.facts == config.env.eval.facts
    assert config.env.train.facts["states"] == [{"meaning": "state", "size": 4}]
    assert yaml.safe_dump(config.env.train.facts)  # plain values, as a run's config.yaml has them


def test_training_on_streamed_frames_is_stopped_and_resumed_to_the_same_bits(
    tmp_path: Path,
) -> None:
    """The signal comes in step 6 of 8, and a state is due after each fourth one."""
    arm(tmp_path / "arm")
    data = f"collect.path={described(tmp_path)}"
    whole = learn(tmp_path / "whole", data)
    step = PolicyOptimizer.step
    made = count()

    def stopping(optimizer: Any) -> Any:
        if next(made) == 5:
            signal.raise_signal(signal.SIGINT)
        return step(optimizer)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PolicyOptimizer, "step", stopping)
        patched.setattr(supervised_phase, "PART_SECONDS", 0.0)  # each call makes one step
        learn(tmp_path / "cut", data, "sft.save_interval=4", code=130)
    run = tmp_path / "cut/logs/run"
    assert (run / "sft_steps/step_00000006").is_dir()
    assert main(["resume", str(run)]) == 0
    first, second = (load_file(each / "sft/model.safetensors") for each in (whole, run))
    assert all(first[name].equal(second[name]) for name in first)


def test_reinforcement_goes_on_in_an_env_with_the_same_cameras_states_and_actions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Demonstrations of the toy are learned from without it, then an update is made in it."""
    tasks = ("env.*.tasks=[reach-left,reach-right]", f"runner.logger.log_path={tmp_path}/logs")
    small = (*QUICK, *tasks, "env.train.total_num_envs=2", "env.eval.total_num_envs=2")
    made = f"{tmp_path}/reached"
    assert main(["collect", "env=toy", *small, f"collect.output={made}", "-v"]) == 0
    model = ("model=toy", "actor.model.num_action_chunks=2")
    where = (f"runner.logger.log_path={tmp_path}/logs", "runner.logger.experiment_name=alone")
    words = ["env=data", *model, *QUICK, *where, f"collect.path={made}", "sft.max_steps=3"]
    assert main(["sft", *words]) == 0
    start = f"actor.model.model_path={tmp_path}/logs/alone/sft"
    short = ("runner.max_epochs=1", "runner.val_before_train=false", "env.eval.trials_per_task=1")
    update = ("actor.global_batch_size=4", "runner.logger.experiment_name=further")
    capsys.readouterr()
    assert main(["train", "env=toy", *model, *small, *short, *update, start]) == 0
    assert "sentence" not in capsys.readouterr().err
    assert rlcore.open_run(tmp_path / "logs/further").checkpoint().step == 1
