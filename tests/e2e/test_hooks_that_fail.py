"""A plugin's hook that raises: told by name, with a checkpoint of the finished updates."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from internals import HookError, assemble, compose, load_checkpoint, read_metrics, train
from resume_cases import COMMON, go_on, plugged_in
from rlcore_tools import report, video
from sameness import assert_same

from rlcore import hookimpl, observer
from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.run import Run
from rlcore.training.callbacks import ObserverWarning
from rlcore.utils import call_with_timeout

QUICK = ["sft.enabled=false", "runner.val_before_train=false", "runner.save_interval=-1"]


class Nosy:
    """A plugin whose hooks fail at one update, as it is told."""

    def __init__(self, hook: str, update: int, fail: Callable[[], None]) -> None:
        self._wanted = (hook, update)
        self._fail = fail

    def _maybe(self, hook: str, run: Run) -> None:
        if (hook, run.update) == self._wanted:
            self._fail()

    @hookimpl
    def rlcore_after_rollout(self, run: Run) -> None:
        self._maybe("after_rollout", run)

    @hookimpl
    def rlcore_after_update(self, run: Run) -> None:
        self._maybe("after_update", run)

    @hookimpl
    def rlcore_after_eval(self, run: Run) -> None:
        self._maybe("after_eval", run)

    @hookimpl
    def rlcore_after_run(self, run: Run) -> None:
        self._maybe("after_run", run)


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


class Steering:
    """A plugin that does something before each update, as it is told."""

    def __init__(self, act: Callable[[Run], None]) -> None:
        self._act = act

    @hookimpl
    def rlcore_after_rollout(self, run: Run) -> None:
        self._act(run)


def divide() -> None:
    raise ZeroDivisionError("told to fail")


def words(log_path: Path, name: str, *overrides: str) -> list[str]:
    names = [f"runner.logger.log_path={log_path}", f"runner.logger.experiment_name={name}"]
    return [*COMMON, *QUICK, *names, *overrides]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train(assemble(compose(words(folder, "whole", "runner.val_check_interval=2"))))
    return folder / "whole"


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
    run = log_path / "nosy"
    with plugged_in(Nosy(hook, update, divide)), pytest.raises(HookError) as caught:
        train(assemble(compose(words(log_path, "nosy", "runner.val_check_interval=2"))))
    message = caught.value.message
    assert message.startswith(
        f"plugin 'nosy' failed in rlcore_{hook}: ZeroDivisionError: told to fail ("
    )
    assert "ZeroDivisionError: told to fail" in message
    assert "pluggy" not in message  # from the plugin's own frame on
    assert load_checkpoint(run).step == saved
    steps = [line["step"] for line in read_metrics(run / "metrics.jsonl")]
    assert steps == sorted(steps) and steps[-1] == saved
    go_on(run)
    assert_same(run, whole)


@pytest.mark.long
def test_an_evaluation_alone_says_it_too(log_path: Path):
    with plugged_in(Nosy("after_eval", 0, divide)), pytest.raises(HookError, match="nosy"):
        train(assemble(compose(words(log_path, "alone", "runner.only_eval=true"))))
    assert (log_path / "alone" / "eval" / "eval.parquet").is_file()


def leave() -> None:
    raise SystemExit(0)


@pytest.mark.long
def test_one_that_fails_at_the_end_leaves_a_finished_run(log_path: Path):
    told = words(log_path, "ended", "runner.max_epochs=1")
    with plugged_in(Nosy("after_run", 1, divide)), pytest.raises(HookError, match="nosy") as caught:
        train(assemble(compose(told)))
    assert "resume" not in str(caught.value.hint)
    assert (log_path / "ended" / "summary.json").is_file()
    assert (log_path / "ended" / "report.html").is_file()  # the others were told all the same


@pytest.mark.long
@pytest.mark.parametrize("fail", [divide, leave])
def test_an_observer_costs_nothing_and_is_warned_of_once(
    log_path: Path, whole: Path, fail: Callable[[], None]
):
    watching = Watching(fail)
    with plugged_in(watching), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(assemble(compose(words(log_path, "watched", "runner.val_check_interval=2"))))
    said = [str(one.message) for one in caught if one.category is ObserverWarning]
    what = "ZeroDivisionError: told to fail" if fail is divide else "SystemExit: 0"
    starts = [
        f"plugin 'nosy' failed in rlcore_after_rollout: {what} (",
        "plugin 'nosy' failed in rlcore_after_update: it changed the metric",
        f"plugin 'nosy' failed in rlcore_after_run: {what} (",
    ]
    assert all(text.startswith(start) for text, start in zip(said, starts, strict=True))
    assert all("the run goes on" in text and "resume" not in text for text in said)
    assert watching.called == ["after_rollout", "after_update"] * 4 + ["after_run"]
    assert_same(log_path / "watched", whole)


class Stuck:
    """An observer that remembers things, until it does not come back from an update; once it is
    let go it steers."""

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
        """Of what an observer may take, however slow the machine is: it is over for this one, once
        it hangs, and for no other."""

        def over() -> bool:
            hangs = self.hangs.is_set()
            self.hangs.clear()
            return hangs

        return SimpleNamespace(over=over)


@pytest.mark.long
def test_an_observer_that_hangs_costs_no_run(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    """What it kept before it hung stays; nothing that it does afterwards reaches the run."""
    stuck = Stuck(update=1)
    monkeypatch.setattr(call_with_timeout, "Countdown", stuck.countdown)

    def let_go(run: Run) -> None:
        if run.update == 2:
            stuck.release.set()
            assert stuck.steered.wait(60)

    told = words(log_path, "hung", "runner.val_check_interval=2", "cluster.timeouts.hook=2")
    with plugged_in(stuck), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with plugged_in(Steering(let_go), "steering"):
            train(assemble(compose(told)))
    said = [str(one.message) for one in caught if one.category is ObserverWarning]
    assert len(said) == 1 and "its rlcore_after_rollout has not returned within 2 s" in said[0]
    assert "the run goes on" in said[0] and "cluster.timeouts.hook" in said[0]
    assert stuck.called == [0, -1, 1]  # and then no more
    run = log_path / "hung"
    saved = load_checkpoint(run)
    assert saved.step == 4 and saved.state["steering"]["kept"] == {"seen": 0}
    assert all("late" not in line for line in read_metrics(run / "metrics.jsonl"))
    assert "stopped" not in json.loads((run / "summary.json").read_text())


def test_the_command_ends_though_an_observer_hangs(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    with plugged_in(Stuck(update=0)):
        told = words(log_path, "left", "runner.max_epochs=1", "cluster.timeouts.hook=1")
        assert main(["train", *told]) == 0
    err = capsys.readouterr().err
    assert "warning: plugin 'nosy': its rlcore_after_rollout has not returned within 1 s" in err


@pytest.mark.long
def test_the_command_announces_an_observer_that_fails(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    with plugged_in(Watching(divide)):
        assert main(["train", *words(log_path, "told", "runner.max_epochs=1")]) == 0
    err = capsys.readouterr().err
    assert (
        "warning: plugin 'nosy' failed in rlcore_after_run: ZeroDivisionError: told to fail ("
        in err
    )
    assert "\nerror:" not in err


def refuse() -> None:
    raise ConfigError("this board has no channel", hint="name another one")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (leave, "error: plugin 'nosy' failed in rlcore_after_rollout: SystemExit: 0 ("),
        (refuse, "error: plugin 'nosy' failed in rlcore_after_rollout: this board has no channel"),
    ],
)
def test_the_command_ends_with_one_error(
    log_path: Path, fail: Callable[[], None], said: str, capsys: pytest.CaptureFixture[str]
):
    with plugged_in(Nosy("after_rollout", 0, fail)):
        assert main(["train", *words(log_path, "left")]) == 1
    err = capsys.readouterr().err
    assert err.count("error:") == 1
    assert said in err
    assert "Traceback (most recent call last):\n  File" in err or fail is refuse


@pytest.mark.long
def test_films_and_reports_that_can_not_be_made_cost_nothing(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*arguments: object, **others: object) -> None:
        raise RuntimeError("no such encoder")

    monkeypatch.setattr(video, "write_video", fail)
    monkeypatch.setattr(report, "write_report", fail)
    told = ["env.train.video_cfg.save_video=true", "env.eval.video_cfg.save_video=true"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(assemble(compose(words(log_path, "unseen", *told, "runner.val_check_interval=2"))))
    said = [str(one.message) for one in caught if one.category is ObserverWarning]
    hooks = ["rlcore_after_rollout", "rlcore_after_eval", "rlcore_after_run"]
    assert [text.splitlines()[0] for text in said] == [
        f"plugin 'tools' failed in {hook}:" for hook in hooks
    ]
    assert_same(log_path / "unseen", whole)


class Odd(BaseException):
    """Not an Exception."""


def odd() -> None:
    raise Odd


def close() -> None:
    raise GeneratorExit


@pytest.mark.long
@pytest.mark.parametrize("fail", [odd, close])
def test_exceptions_of_any_class_cost_no_update(log_path: Path, fail: Callable[[], None]):
    with plugged_in(Nosy("after_rollout", 1, fail)), pytest.raises(HookError, match="nosy"):
        train(assemble(compose(words(log_path, "odd"))))
    assert load_checkpoint(log_path / "odd").step == 1


class Counting:
    """A plugin that does something to the metrics of update 2, as it is told."""

    def __init__(self, mess: Callable[[dict[Any, Any]], object]) -> None:
        self._mess = mess

    @hookimpl
    def rlcore_after_update(self, run: Run, metrics: dict[Any, Any]) -> None:
        if run.update == 2:
            self._mess(metrics)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("mess", "said"),
    [
        (
            lambda m: m.update(x="abc"),
            "added the metric 'x': 'abc'; a hook may add metrics: a name",
        ),
        (lambda m: m.update(x=np.zeros(2)), "added the metric 'x': array([0., 0.]); a hook may"),
        (lambda m: m.update(x=10**400), "added the metric 'x': 1000"),
        (lambda m: m.update({5: 1.0}), "added the metric 5: 1.0; a hook may add"),
        (lambda m: m.update(step=7.0), "added the metric 'step': 7.0; a hook may add"),
        (lambda m: m.update(time=7.0), "added the metric 'time': 7.0; a hook may add"),
        (lambda m: m.clear(), "to nothing; a hook may add metrics"),
        (
            lambda m: m.update({"train/actor/approx_kl": 7.0}),
            "changed the metric 'train/actor/approx_kl' from ",
        ),
    ],
)
def test_metrics_that_cannot_be_logged_cost_no_update(
    log_path: Path, mess: Callable[[dict[Any, Any]], object], said: str
):
    with plugged_in(Counting(mess)), pytest.raises(HookError) as caught:
        train(assemble(compose(words(log_path, "counting"))))
    assert caught.value.message.startswith("plugin 'nosy' failed in rlcore_after_update: it ")
    assert said in caught.value.message
    assert load_checkpoint(log_path / "counting").step == 2
    last = list(read_metrics(log_path / "counting" / "metrics.jsonl"))[-1]
    assert last["step"] == 2 and last["train/actor/approx_kl"] != 7.0


def test_metrics_that_hooks_add_are_logged(log_path: Path):
    def add(metrics: dict[Any, Any]) -> None:
        metrics |= {"mine/count": np.int64(3), "mine/nan": float("nan"), "mine/share": 0.25}

    with plugged_in(Counting(add)):
        train(assemble(compose(words(log_path, "adding", "runner.max_epochs=2"))))
    lines = list(read_metrics(log_path / "adding" / "metrics.jsonl"))
    assert [line["mine/share"] for line in lines if "mine/share" in line] == [0.25]
    assert [line["mine/count"] for line in lines if "mine/count" in line] == [3.0]


def interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_hook_stays_what_it_is(log_path: Path, capsys: pytest.CaptureFixture[str]):
    with plugged_in(Nosy("after_rollout", 0, interrupt)):
        assert main(["train", *words(log_path, "interrupted")]) == 130
    assert "rlcore: interrupted" in capsys.readouterr().err
    assert load_checkpoint(log_path / "interrupted").step == 0  # as by a signal there
