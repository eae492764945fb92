"""The Python API: trained, evaluated, played and read again in one process, without a command."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import HookError

import rlcore
from rlcore.api import RunResult
from rlcore.cli.main import main
from rlcore.contracts.errors import (
    CheckpointError,
    ConfigError,
    PluginError,
    PolicyError,
    UserError,
)
from rlcore.contracts.protocols import take_rows
from rlcore.contracts.run import Run
from rlcore.plugins.registry import load_plugins

TOY = (
    "env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local",
    "env.train.total_num_envs=8", "env.eval.total_num_envs=4", "env.eval.trials_per_task=2",
    "env.*.tasks=[reach-left,reach-up]", "runner.max_epochs=3", "runner.val_before_train=false",
    "actor.micro_batch_size=16", "actor.global_batch_size=32", "actor.model.num_action_chunks=2",
    "runner.logger.logger_backends=[]", "cluster.torch_threads=1", "rollout.forward_batch=4",
    "runner.logger.experiment_name=run",
)  # fmt: skip


def short(folder: Path, *overrides: str, **named: Any) -> RunResult:
    return rlcore.train(*TOY, f"runner.logger.log_path={folder}", *overrides, **named)


@pytest.fixture(scope="module")
def seen() -> list[int]:
    return []


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, seen: list[int]) -> RunResult:
    def count(run: Run, metrics: dict[str, float]) -> None:
        seen.append(run.update)
        metrics["mine/doubled"] = 2.0 * run.update

    return short(tmp_path_factory.mktemp("runs"), callbacks=[count])


@pytest.fixture(scope="module")
def observation(result: RunResult) -> dict[str, Any]:
    """Of three starts."""
    envs = rlcore.make_env("toy", "env.eval.tasks=[reach-left,reach-up]", num_envs=3)
    with contextlib.closing(envs):
        return envs.reset(seed=1)[0]


def test_a_result_has_the_summary_and_metrics_of_its_run(result, seen):
    assert seen == [1, 2, 3]
    assert result.summary == json.loads((result.folder / "summary.json").read_text())
    assert result.summary["success_after"]["n"] == 4  # 2 tasks, 2 trials
    logged = [line["mine/doubled"] for line in result.metrics if "mine/doubled" in line]
    assert logged == [2.0, 4.0, 6.0]


def test_a_callback_ends_training(tmp_path):
    def enough(run: Run, metrics: Mapping[str, float]) -> None:
        run.stop("that will do")

    assert short(tmp_path, callbacks=[enough]).summary["stopped"] == "that will do"
    assert not [name for name, _ in load_plugins().manager.list_name_plugin()
                if "callback" in name]  # fmt: skip


def test_a_failing_callback_is_named_after_the_checkpoint(tmp_path):
    def broken(run: Run, metrics: Mapping[str, float]) -> None:
        raise ValueError("no such luck")

    with pytest.raises(HookError) as error:
        short(tmp_path, callbacks=[broken])
    assert "broken" in error.value.message and "rlcore_after_update" in error.value.message
    assert rlcore.open_run(tmp_path / "run").checkpoint().step == 1


def test_wrong_callbacks_and_sweeps_are_refused_before_a_run(tmp_path, refused):
    with refused(ConfigError, "<lambda>", "(run, m", text=False):
        short(tmp_path, callbacks=lambda metrics: None)
    with refused(PluginError, "object", text=False):
        short(tmp_path, callbacks=[object()])
    with refused(ConfigError, "RunConfig"):
        rlcore.sweep(rlcore.compose("env=toy", "model=toy", "algorithm=ppo"), "runner.seed=1,2")
    assert not list(tmp_path.iterdir())


def test_an_object_has_the_hooks_of_a_plugin(tmp_path):
    class Labels:
        def __init__(self) -> None:
            self.seen: list[str] = []

        @rlcore.observer
        def rlcore_after_eval(self, label: str) -> None:
            self.seen.append(label)

    labels = Labels()
    short(tmp_path, "runner.max_epochs=1", callbacks=[labels])
    assert labels.seen == ["after"]


@pytest.mark.long
def test_a_run_is_evaluated_like_by_the_command(result, tmp_path, capsys):
    again = rlcore.evaluate(str(result.folder), f"runner.logger.log_path={tmp_path}")
    assert again.episodes == result.run.episodes("after")
    assert main(["eval", str(result.folder), f"runner.logger.log_path={tmp_path}"]) == 0
    by_command = rlcore.open_run(tmp_path / "run-eval-2").evaluation("eval")
    assert by_command == again
    assert again.rate == sum(one.success for one in again.episodes) / 4
    assert again.failures == [one for one in again.episodes if not one.success]


@pytest.mark.long
def test_fewer_trials(result, tmp_path):
    fewer = rlcore.evaluate(result, f"runner.logger.log_path={tmp_path}", trials=1)
    assert [one.trial for one in fewer.episodes] == [1000, 1000]


@pytest.mark.long
def test_a_policy_in_memory_is_evaluated(result, tmp_path):
    policy = result.policy
    place = f"runner.logger.log_path={tmp_path}"
    assert rlcore.evaluate(policy, place).episodes == result.run.episodes("after")
    for parameter in policy.policy.parameter_groups()["policy"]:
        parameter.data.zero_()  # does nothing any more
    still = rlcore.evaluate(policy, place)
    assert still.rate == 0.0 and still.interval[0] == 0.0


def test_a_policy_acts_on_what_an_env_shows(result, observation):
    policy = rlcore.load_policy(result.folder)
    actions = policy.select_actions(observation)
    assert (actions.shape, actions.dtype) == ((3, 2, 2), np.float32)
    assert (actions == policy.select_actions(observation, seed=7)).all()  # nothing is drawn
    drawn = policy.select_actions(observation, seed=7, deterministic=False)
    assert (drawn == policy.select_actions(observation, seed=7, deterministic=False)).all()
    assert (drawn != policy.select_actions(observation, seed=8, deterministic=False)).any()


def test_a_row_with_a_seed_of_its_own_is_drawn_alike_in_any_place(result, observation):
    policy = rlcore.load_policy(result.folder / "checkpoints" / "step_000003")
    first = {
        "cameras": {name: frames[:1] for name, frames in observation["cameras"].items()},
        "states": observation["states"][:1],
        "task_descriptions": observation["task_descriptions"][:1],
    }
    alone = policy.select_actions(first, seed=[5], deterministic=False)
    beside = policy.select_actions(observation, seed=[5, 6, 5], deterministic=False)
    np.testing.assert_allclose(alone[0], beside[0], atol=1e-6)


@pytest.mark.parametrize("seed", [0, [7, 8, 9], np.array([7, 8, 9])])
def test_a_row_does_not_depend_on_its_place_or_its_batch(result, observation, seed):
    policy = result.policy

    def drawn(rows: list[int], **named: Any) -> np.ndarray:
        seeds = seed if isinstance(seed, int) else [int(seed[row]) for row in rows]
        chosen = take_rows(observation, rows)
        return policy.select_actions(chosen, seed=seeds, deterministic=False, **named)

    fixed, free = drawn([0, 1, 2], forward_batch=4), drawn([0, 1, 2])
    assert (fixed != policy.select_actions(observation, forward_batch=4)).any()  # noise was drawn
    for rows in ([2, 0, 1], [1], [2, 2, 0, 1, 1]):
        np.testing.assert_array_equal(drawn(rows, forward_batch=4), fixed[rows])
        np.testing.assert_allclose(drawn(rows), free[rows], atol=1e-4)  # docs/repeatability.md, 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"states": np.zeros((3, 2))}, ["toy", "states", "float64", "[3, 2]"]),
        *(({"states": states}, ["states"]) for states in (3.0, None, np.float32(1))),
    ],
)
def test_an_observation_of_another_env_is_refused(result, observation, refused, changes, words):
    with refused(PolicyError, *words):
        result.policy.select_actions({**observation, **changes})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("seed", [None, 1.5, "0", [1, 2, 3.5], {1, 2, 3}, [1, 2]]),  # two seeds for three rows
        ("forward_batch", [0, -4, 2.0, "4"]),
    ],
)
def test_arguments_of_select_actions_are_checked(result, observation, refused, name, values):
    for value in values:
        with refused(PolicyError, "seeds" if value == [1, 2] else f"{name}="):
            result.policy.select_actions(observation, **{name: value})


def test_an_episode_is_played_again(result):
    row = result.run.episodes("after")[0]
    played = result.run.replay(row.task, row.trial)
    assert len(repr(played)) < 1000  # a notebook shows it: no arrays
    assert played.result == row
    assert len(played.trace.arrays["actions"]) >= 1


def test_an_evaluation_that_was_not_made_is_refused(result, refused):
    with refused(CheckpointError, "'before'", "after", text=False):
        result.run.episodes("before")


def test_a_configuration_is_changed_and_trained(result, tmp_path):
    config = rlcore.compose(*TOY, f"runner.logger.log_path={tmp_path}")
    other = rlcore.train(config, "runner.max_epochs=1", "runner.seed=3")
    assert (other.summary["seed"], other.run.checkpoint().step) == (3, 1)


def test_a_resumed_run_ends_as_the_uninterrupted_one(result, tmp_path, refused):
    first = short(tmp_path, "runner.max_epochs=1", "runner.save_interval=1")
    seen: list[int] = []
    further = rlcore.resume(
        first, "runner.max_epochs=3", callbacks=lambda run, metrics: seen.append(run.update)
    )
    assert (seen, further.folder) == ([2, 3], first.folder)
    assert further.run.episodes("after") == result.run.episodes("after")
    ends = [one.policy.policy.parameter_groups()["policy"] for one in (further, result)]
    assert all((a == b).all() for a, b in zip(*ends, strict=True))
    moved = first.folder.rename(tmp_path / "moved")
    earlier = rlcore.resume(moved / "checkpoints/step_000001", "runner.max_epochs=2", verify=True)
    assert (earlier.folder, earlier.run.checkpoint().step) == (moved, 2)
    with refused(ConfigError, "log_path="):
        rlcore.resume(moved, f"runner.logger.log_path={tmp_path}")
    with refused(ConfigError, "2 of 2"):
        rlcore.resume(earlier)
    (tmp_path / "sweep.txt").write_text("")
    with refused(ConfigError, "sweep"):
        rlcore.resume(tmp_path)


def test_a_result_stands_for_its_run(result, observation, refused):
    by_folder = rlcore.load_policy(result.folder).select_actions(observation)
    for named in (result, result.run, rlcore.open_run(result.folder / "checkpoints/step_000003")):
        assert (rlcore.load_policy(named).select_actions(observation) == by_folder).all()
        assert rlcore.open_run(named).folder == result.run.folder
    for named in (result, result.folder, str(result.folder), result.run):
        with refused(ConfigError, result.folder, "rlcore resume", text=False):
            rlcore.train(named)


def test_a_configuration_is_changed_wherever_it_is_taken(refused):
    config = rlcore.compose("env=toy", "model=toy", "algorithm=ppo")
    other = rlcore.compose(config, "algorithm.gamma=0.5", "runner.seed=9")
    assert (other.algorithm.gamma, other.runner.seed) == (0.5, 9)
    assert config.algorithm.gamma != 0.5
    with contextlib.closing(rlcore.make_env(other, "env.eval.tasks=[reach-up]")) as envs:
        assert envs.reset(seed=0)[1]["task"].tolist() == ["reach-up"]
    for override, name in (("algorithm.gama=0.5", "algorithm.gamma"), ("env=toy", "env=toy")):
        with refused(ConfigError, name):
            rlcore.compose(config, override)
    with refused(ConfigError, "config_dirs"):
        rlcore.train(config, config_dirs=["configs"])
    with refused(ConfigError, "model", text=False):  # it lists the installed ones
        rlcore.compose(rlcore.compose("env=toy"), require=("model",))


@pytest.mark.parametrize("value", [None, 3, ["logs/run"]], ids=str)
def test_a_run_is_named_by_its_folder(value, refused):
    for call in (rlcore.open_run, rlcore.load_policy, rlcore.resume):
        with refused(ConfigError, type(value).__name__):
            call(value)


CONFIG = "env=toy", "model=toy", "algorithm=ppo"
WORDS: Any = ["algorithm=ppo"]
WRONG_CALLS: dict[str, tuple[type[UserError], Callable[[], object], str]] = {
    "no env": (ConfigError, lambda: rlcore.make_env(None), "NoneType"),  # type: ignore[arg-type]
    "an override as env": (ConfigError, lambda: rlcore.make_env("env=toy"), "env=toy"),
    "a side": (ConfigError, lambda: rlcore.make_env("toy", side="test"), "eval, train"),  # type: ignore[arg-type]
    "no rows": (ConfigError, lambda: rlcore.make_env("toy", num_envs=0), "num_envs"),
    "no run": (CheckpointError, lambda: rlcore.resume("no-such-run"), "no-such-run"),
    "no recipe": (CheckpointError, lambda: rlcore.evaluate("no-such-run"), "no-such-run"),
    "no model": (ConfigError, lambda: rlcore.train("env=toy", "algorithm=ppo"), "model"),
    "a misspelled recipe": (ConfigError, lambda: rlcore.compose("quikstart"), "quikstart"),
    "words as a list": (ConfigError, lambda: rlcore.compose("env=toy", WORDS), "list"),
    "a list behind a configuration": (
        ConfigError, lambda: rlcore.train(rlcore.compose(*CONFIG), WORDS), "list"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_arguments_are_refused_before_a_run(name, refused):
    error, call, word = WRONG_CALLS[name]
    with refused(error, word, text=False):  # most list what is installed
        call()


@pytest.mark.long
def test_a_sweep_gives_its_runs(tmp_path):
    words = [word for word in TOY if "max_epochs" not in word]
    place = f"runner.logger.log_path={tmp_path}"
    runs = rlcore.sweep(*words, "runner.max_epochs=1", place, "runner.seed=1,2")
    assert [run.config().runner.seed for run in runs] == [1, 2]
    assert all(run.episodes("after") for run in runs)
