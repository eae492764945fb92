"""A hook that raises is named, and the updates before it are in a checkpoint."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from internals import HookError, ObserverWarning, load_checkpoint, read_metrics
from resume_cases import REINFORCE, go_on, play, plugged_in
from rlcore_tools import report, video
from sameness import assert_same

from rlcore import hookimpl, observer
from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.run import Run
from rlcore.utils import call_with_timeout

QUICK = [
    "runner.val_before_train=false",
    "runner.save_interval=-1",
    "runner.logger.experiment_name=run",
]


class Failing:
    """A plugin of which one hook fails at one update."""

    def __init__(self, hook: str, update: int, fail: Callable[[], None]) -> None:
        self._failing = (hook, update)
        self._fail = fail

    def _called(self, hook: str, run: Run) -> None:
        if (hook, run.update) == self._failing:
            self._fail()

    @hookimpl
    def rlcore_after_rollout(self, run: Run) -> None:
        self._called("after_rollout", run)

    @hookimpl
    def rlcore_after_update(self, run: Run) -> None:
        self._called("after_update", run)

    @hookimpl
    def rlcore_after_eval(self, run: Run) -> None:
        self._called("after_eval", run)

    @hookimpl
    def rlcore_after_run(self, run: Run) -> None:
        self._called("after_run", run)


class Watching:
    """An observer that fails, each time it is called."""

    def __init__(self, fail: Callable[[], None]) -> None:
        self._fail = fail
        self.called: list[str] = []

    @observer
    def rlcore_after_rollout(self) -> None:
        self.called.append("after_rollout")
        self._fail()

    @observer
    def rlcore_after_update(self, metrics: dict[str, float]) -> None:
        self.called.append("after_update")
        metrics.clear()

    @observer
    def rlcore_after_run(self) -> None:
        self.called.append("after_run")
        self._fail()


def divide() -> None:
    raise ZeroDivisionError("told to fail")


EVALUATED = "runner.val_check_interval=2"


def words(log_path: Path, *overrides: str) -> list[str]:
    return [*REINFORCE, *QUICK, f"runner.logger.log_path={log_path}", *overrides]


def start(log_path: Path, *overrides: str) -> Path:
    return play(log_path, "run", *REINFORCE, *QUICK, *overrides)


def observer_warnings(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught if warning.category is ObserverWarning]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("runs"), EVALUATED)


@pytest.mark.parametrize(
    ("hook", "update", "saved"),
    [
        ("after_rollout", 2, 2),  # two updates were finished
        pytest.param("after_update", 3, 3, marks=pytest.mark.long),
        pytest.param("after_eval", 2, 2, marks=pytest.mark.long),
    ],
)
def test_the_finished_updates_are_kept(
    log_path: Path, whole: Path, hook: str, update: int, saved: int
):
    with plugged_in(Failing(hook, update, divide)), pytest.raises(HookError) as error:
        start(log_path, EVALUATED)
    for word in ("nosy", f"rlcore_{hook}", "ZeroDivisionError: told to fail"):
        assert word in error.value.message
    assert "pluggy" not in error.value.message  # the traceback begins in the plugin
    run = log_path / "run"
    assert load_checkpoint(run).step == saved
    steps = [line["step"] for line in read_metrics(run / "metrics.jsonl")]
    assert steps == sorted(steps) and steps[-1] == saved
    go_on(run)
    assert_same(run, whole)


@pytest.mark.long
def test_a_failing_hook_ends_an_evaluation(log_path: Path):
    with plugged_in(Failing("after_eval", 0, divide)), pytest.raises(HookError):
        start(log_path, "runner.only_eval=true")
    assert (log_path / "run" / "eval" / "eval.parquet").is_file()


def leave() -> None:
    raise SystemExit(0)


@pytest.mark.long
def test_a_hook_that_fails_at_the_end_leaves_a_finished_run(log_path: Path):
    with plugged_in(Failing("after_run", 1, divide)), pytest.raises(HookError) as error:
        start(log_path, "runner.max_epochs=1")
    assert "resume" not in str(error.value.hint)
    assert (log_path / "run" / "summary.json").is_file()
    assert (log_path / "run" / "report.html").is_file()  # other plugins' hooks were called


@pytest.mark.long
@pytest.mark.parametrize("fail", [divide, leave])
def test_a_failing_observer_costs_nothing_and_is_warned_of_once(
    log_path: Path, whole: Path, fail: Callable[[], None]
):
    watching = Watching(fail)
    with plugged_in(watching), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start(log_path, EVALUATED)
    texts = observer_warnings(caught)
    hooks = ["rlcore_after_rollout", "rlcore_after_update", "rlcore_after_run"]
    error = "ZeroDivisionError: told to fail" if fail is divide else "SystemExit: 0"
    words = (error, "changed the metric", error)
    for hook, word, text in zip(hooks, words, texts, strict=True):
        assert hook in text and word in text and "resume" not in text
    assert watching.called == ["after_rollout", "after_update"] * 4 + ["after_run"]
    assert_same(log_path / "run", whole)


class Stuck:
    """An observer that stores values until one of its calls hangs; when that goes on, it steers."""

    def __init__(self, update: int) -> None:
        self._update = update
        self.hangs = threading.Event()
        self.release = threading.Event()
        self.called: list[int] = []
        self.steered = threading.Event()

    @observer
    def rlcore_after_rollout(self, run: Run, metrics: dict[str, float]) -> None:
        self.called.append(run.update)
        run.store("seen", run.update)
        if run.update == self._update:
            self.hangs.set()
            self.release.wait()
            metrics["late"] = 1.0
            run.stop("too late")
            self.steered.set()

    @observer
    def rlcore_after_update(self, run: Run) -> None:
        self.called.append(-run.update)

    def countdown(self, seconds: float) -> SimpleNamespace:
        """Return a time limit that has passed once this observer hangs, however slow the machine
        is, and for no other."""

        def over() -> bool:
            hangs = self.hangs.is_set()
            self.hangs.clear()
            return hangs

        return SimpleNamespace(over=over)


@pytest.mark.long
def test_an_observer_that_hangs_costs_no_run(log_path: Path, whole: Path, monkeypatch):
    """What it stored before it hung stays; nothing that it does afterwards reaches the run."""
    stuck = Stuck(update=1)
    monkeypatch.setattr(call_with_timeout, "Countdown", stuck.countdown)

    class Releasing:
        @hookimpl
        def rlcore_after_rollout(self, run: Run) -> None:
            if run.update == 2:
                stuck.release.set()
                assert stuck.steered.wait(60)

    with plugged_in(stuck), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with plugged_in(Releasing(), "releasing"):
            run = start(log_path, EVALUATED, "cluster.timeouts.hook=2")
    (text,) = observer_warnings(caught)
    assert "rlcore_after_rollout" in text and "cluster.timeouts.hook" in text
    assert stuck.called == [0, -1, 1]  # and then no more
    saved = load_checkpoint(run)
    assert saved.step == 4 and saved.state["steering"]["kept"] == {"seen": 0}
    assert all("late" not in line for line in read_metrics(run / "metrics.jsonl"))
    assert "stopped" not in json.loads((run / "summary.json").read_text())


def test_the_command_ends_though_an_observer_hangs(log_path: Path, capsys):
    with plugged_in(Stuck(update=0)):
        more = ["runner.max_epochs=1", "cluster.timeouts.hook=1"]
        assert main(["train", *words(log_path, *more)]) == 0
    err = capsys.readouterr().err
    assert "warning: plugin 'nosy'" in err and "rlcore_after_rollout" in err


def refuse() -> None:
    raise ConfigError("this board has no channel", hint="name another one")


class NoException(BaseException):
    """Not an Exception."""


def raise_no_exception() -> None:
    raise NoException


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("fail", "text"),
    [
        (leave, "SystemExit: 0"),
        (raise_no_exception, "NoException"),
        (refuse, "this board has no channel"),
    ],
)
def test_the_command_ends_with_one_error(
    log_path: Path, fail: Callable[[], None], text: str, capsys
):
    with plugged_in(Failing("after_rollout", 0, fail)):
        assert main(["train", *words(log_path)]) == 1
    err = capsys.readouterr().err
    assert err.count("error:") == 1
    assert "error: plugin 'nosy'" in err and "rlcore_after_rollout" in err and text in err
    # a refusal of the plugin's needs no traceback
    assert ("Traceback" in err) == (fail is not refuse)


@pytest.mark.long
def test_films_and_reports_that_can_not_be_made_cost_nothing(
    log_path: Path, whole: Path, monkeypatch
):
    def fail(*arguments: object, **others: object) -> None:
        raise RuntimeError("no such encoder")

    monkeypatch.setattr(video, "write_video", fail)
    monkeypatch.setattr(report, "write_report", fail)
    filmed = [f"env.{side}.video_cfg.save_video=true" for side in ("train", "eval")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = start(log_path, EVALUATED, *filmed)
    texts = observer_warnings(caught)
    hooks = ["rlcore_after_rollout", "rlcore_after_eval", "rlcore_after_run"]
    assert all("tools" in text and hook in text for hook, text in zip(hooks, texts, strict=True))
    assert_same(run, whole)


class Changing:
    """A plugin that changes the metrics of update 2."""

    def __init__(self, change: Callable[[dict[Any, Any]], object]) -> None:
        self._change = change

    @hookimpl
    def rlcore_after_update(self, run: Run, metrics: dict[Any, Any]) -> None:
        if run.update == 2:
            self._change(metrics)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda m: m.update(x="abc"), "'x': 'abc'"),
        (lambda m: m.update(x=np.zeros(2)), "'x': array([0., 0.])"),
        (lambda m: m.update(x=10**400), "'x': 1000"),
        (lambda m: m.update({5: 1.0}), "5: 1.0"),
        (lambda m: m.update(step=7.0), "'step': 7.0"),
        (lambda m: m.update(time=7.0), "'time': 7.0"),
        (lambda m: m.clear(), "to nothing"),
        (lambda m: m.update({"train/actor/approx_kl": 7.0}), "'train/actor/approx_kl'"),
    ],
)
def test_metrics_that_cannot_be_logged_cost_no_update(
    log_path: Path, change: Callable[[dict[Any, Any]], object], word: str
):
    with plugged_in(Changing(change)), pytest.raises(HookError) as error:
        start(log_path)
    assert "rlcore_after_update" in error.value.message and word in error.value.message
    assert load_checkpoint(log_path / "run").step == 2
    last = list(read_metrics(log_path / "run" / "metrics.jsonl"))[-1]
    assert last["step"] == 2 and last["train/actor/approx_kl"] != 7.0


def test_metrics_that_hooks_add_are_logged(log_path: Path):
    def add(metrics: dict[Any, Any]) -> None:
        metrics |= {"mine/count": np.int64(3), "mine/nan": float("nan"), "mine/share": 0.25}

    with plugged_in(Changing(add)):
        run = start(log_path, "runner.max_epochs=2")
    lines = list(read_metrics(run / "metrics.jsonl"))
    assert [line["mine/share"] for line in lines if "mine/share" in line] == [0.25]
    assert [line["mine/count"] for line in lines if "mine/count" in line] == [3.0]


def interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_hook_interrupts_the_run(log_path: Path, capsys):
    with plugged_in(Failing("after_rollout", 0, interrupt)):
        assert main(["train", *words(log_path)]) == 130
    assert "rlcore: interrupted" in capsys.readouterr().err
    assert load_checkpoint(log_path / "run").step == 0  # as by a signal there
