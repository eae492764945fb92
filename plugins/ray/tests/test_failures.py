"""What is reported of a worker's error."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from ray.exceptions import ActorDiedError, RayTaskError
from rlcore_ray import failures
from rlcore_ray.channel import WorkerLost
from rlcore_ray.failures import PendingCalls, WorkerDied, _own_traceback

from rlcore.contracts.errors import WorkerError


def fail():
    try:
        raise KeyError("secret")
    except KeyError as error:
        raise ValueError("bad") from error


def test_causes_are_kept_and_nothing_of_rays_own():
    try:
        fail()
    except ValueError as error:
        cause = error
    header = "\x1b[36mray::Worker.call()\x1b[39m (pid=1, ip=10.0.0.1)"
    frames = [
        header,
        "           ^^^^^^",
        "KeyError: 'secret'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        header,
        "           ^^^^^^",
        '  File "worker.py", line 3, in call',
        "    fail()",
        "    ^^^^^^",
        "ValueError: bad",
    ]
    text = _own_traceback(RayTaskError("call", "\n".join(frames), cause))
    assert text.splitlines() == [
        "Traceback (most recent call last):",
        "KeyError: 'secret'",
        *frames[3:6],
        "Traceback (most recent call last):",
        *frames[8:],
    ]


class Healthy:
    """Stands in for :class:`rlcore_ray.health.RayHealth`."""

    patience = 1.0

    def answering(self, doing, seconds=0.0):
        return contextlib.nullcontext()

    def check(self):
        return None


class Totals:
    """The part of the queues that is used while others are waited for."""

    all = ()


def complains() -> RayTaskError:
    return RayTaskError("call", "RuntimeError: Connection closed by peer", RuntimeError("closed"))


def lost() -> RayTaskError:
    return RayTaskError("call", "", WorkerLost("observations were lost with their sender"))


@pytest.fixture
def fail_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Two calls that fail one after the other: `fail_in_turn(first, second)`; None: no failure."""

    def ask(first: Exception, second: Exception | None):
        fails = {"a": first, "b": second}

        def wait(refs, *, num_returns, timeout):
            done = [ref for ref in refs if fails.get(ref) is not None][:1]
            return done, [ref for ref in refs if ref not in done]

        def get(ref):
            raise fails[ref]

        monkeypatch.setattr(failures.ray, "wait", wait)
        monkeypatch.setattr(failures.ray, "get", get)
        logs = {f"actor worker {rank}": tmp_path / f"actor_{rank}.log" for rank in (0, 1)}
        made = PendingCalls(Totals(), Healthy(), 1.0, logs.get)  # type: ignore[arg-type]
        made.results({"a": "actor worker 0", "b": "actor worker 1"}, 60.0, "update")

    return ask


@pytest.mark.parametrize("first", [complains, lost])
def test_a_death_is_reported_before_errors_that_follow_from_it(refused, fail_in_turn, first):
    with refused(WorkerDied, "actor worker 1", text=False):  # Ray words the cause
        fail_in_turn(first(), ActorDiedError())


@pytest.mark.parametrize("text", ["Fatal Python error: Segmentation fault\n", "", None])
def test_the_error_of_a_death_names_the_log_unless_it_is_empty(
    refused, fail_in_turn, tmp_path: Path, text: str | None
):
    (tmp_path / "actor_0.log").write_text("another worker's")
    log = tmp_path / "actor_1.log"
    if text is not None:
        log.write_text(text)
    with refused(WorkerDied, "actor worker 1", text=False) as caught:
        fail_in_turn(lost(), ActorDiedError())
    assert (f"; what the worker printed before: {log}" in caught.value.hint) == bool(text)
    assert "actor_0.log" not in caught.value.hint


def test_an_error_without_a_death_is_reported_as_it_is(refused, fail_in_turn, monkeypatch):
    with refused(WorkerError, "worker 0"):
        fail_in_turn(complains(), complains())
    monkeypatch.setattr(failures, "DEATH_SECONDS", 0.0)
    with refused(WorkerLost, "observations were lost"):
        fail_in_turn(lost(), None)
