"""What is told of a worker's error."""

from __future__ import annotations

from ray.exceptions import RayTaskError

from rlcore.workers.waiting import _own_traceback


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
