"""A plugin's hook that raises: told by name, with a checkpoint of the finished updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from resume_cases import COMMON, go_on
from sameness import assert_same

from rlcore import hookimpl
from rlcore.cli.main import main
from rlcore.config.compose import compose
from rlcore.errors import ConfigError
from rlcore.loop import train
from rlcore.loop.hooks import HookError
from rlcore.plugins import load_plugins
from rlcore.track.checkpoint import load_checkpoint
from rlcore.track.trackers import read_metrics

QUICK = ["sft.enabled=false", "runner.val_before_train=false", "runner.save_interval=-1"]


class Nosy:
    """A plugin whose hooks fail at one update, as it is told."""

    def __init__(self, hook: str, update: int, fail: Callable[[], None]) -> None:
        self._wanted = (hook, update)
        self._fail = fail

    def _maybe(self, hook: str, update: int) -> None:
        if (hook, update) == self._wanted:
            self._fail()

    @hookimpl
    def rlcore_before_rollout(self, run: Any, update: int) -> None:
        self._maybe("before_rollout", update)

    @hookimpl
    def rlcore_after_rollout(self, run: Any, update: int) -> None:
        self._maybe("after_rollout", update)

    @hookimpl
    def rlcore_before_update(self, run: Any, update: int) -> None:
        self._maybe("before_update", update)

    @hookimpl
    def rlcore_after_update(self, run: Any, update: int) -> None:
        self._maybe("after_update", update)

    @hookimpl
    def rlcore_before_eval(self, run: Any, update: int) -> None:
        self._maybe("before_eval", update)

    @hookimpl
    def rlcore_after_eval(self, run: Any, update: int) -> None:
        self._maybe("after_eval", update)

    @hookimpl
    def rlcore_before_checkpoint(self, run: Any, update: int) -> None:
        self._maybe("before_checkpoint", update)

    @hookimpl
    def rlcore_after_checkpoint(self, run: Any, update: int) -> None:
        self._maybe("after_checkpoint", update)


@contextmanager
def plugged_in(plugin: Nosy) -> Iterator[None]:
    manager = load_plugins().manager
    manager.register(plugin, name="nosy")
    try:
        yield
    finally:
        manager.unregister(plugin)


def divide() -> None:
    raise ZeroDivisionError("told to fail")


def words(log_path: Path, name: str, *overrides: str) -> list[str]:
    names = [f"runner.logger.log_path={log_path}", f"runner.logger.experiment_name={name}"]
    return [*COMMON, *QUICK, *names, *overrides]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train.run(compose(words(folder, "whole", "runner.val_check_interval=2")))
    return folder / "whole"


@pytest.mark.parametrize(
    ("hook", "update", "saved"),
    [
        pytest.param("before_rollout", 2, 2, marks=pytest.mark.long),
        ("after_rollout", 2, 2),  # two updates were finished
        ("before_update", 2, 3),  # the third is finished before the run ends
        pytest.param("after_update", 2, 3, marks=pytest.mark.long),
        pytest.param("before_eval", 2, 2, marks=pytest.mark.long),
        ("after_eval", 2, 2),
        pytest.param("before_checkpoint", 4, 4, marks=pytest.mark.long),
        ("after_checkpoint", 4, 4),
    ],
)
def test_the_finished_updates_are_kept(
    log_path: Path, whole: Path, hook: str, update: int, saved: int
):
    run = log_path / "nosy"
    with plugged_in(Nosy(hook, update, divide)), pytest.raises(HookError) as caught:
        train.run(compose(words(log_path, "nosy", "runner.val_check_interval=2")))
    message = caught.value.message
    assert message.startswith(f"plugin 'nosy' failed in rlcore_{hook}:\nTraceback (most recent")
    assert "ZeroDivisionError: told to fail" in message
    assert "pluggy" not in message  # from the plugin's own frame on
    assert load_checkpoint(run).step == saved
    steps = [line["step"] for line in read_metrics(run / "metrics.jsonl")]
    assert steps == sorted(steps) and steps[-1] == saved
    go_on(run)
    assert_same(run, whole)


def test_an_evaluation_alone_says_it_too(log_path: Path):
    with plugged_in(Nosy("after_eval", 0, divide)), pytest.raises(HookError, match="nosy"):
        train.run(compose(words(log_path, "alone", "runner.only_eval=true")))
    assert (log_path / "alone" / "eval" / "eval.parquet").is_file()


def leave() -> None:
    raise SystemExit(0)


def refuse() -> None:
    raise ConfigError("this board has no channel", hint="name another one")


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (leave, "error: plugin 'nosy' failed in rlcore_before_rollout:\nTraceback"),
        (refuse, "error: plugin 'nosy' failed in rlcore_before_rollout: this board has no channel"),
    ],
)
def test_the_command_ends_with_one_error(
    log_path: Path, fail: Callable[[], None], said: str, capsys: pytest.CaptureFixture[str]
):
    with plugged_in(Nosy("before_rollout", 0, fail)):
        assert main(["train", *words(log_path, "left")]) == 1
    err = capsys.readouterr().err
    assert err.count("error:") == 1
    assert said in err
    assert "Traceback (most recent call last):\n  File" in err or fail is refuse


def interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_hook_stays_what_it_is(log_path: Path, capsys: pytest.CaptureFixture[str]):
    with plugged_in(Nosy("before_rollout", 0, interrupt)):
        assert main(["train", *words(log_path, "interrupted")]) == 130
    assert "rlcore: interrupted" in capsys.readouterr().err
