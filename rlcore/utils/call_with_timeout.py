"""Call a function with a timeout, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rlcore.utils.watchdog import TICK, Countdown


def call_with_timeout(call: Callable[[], object], seconds: float) -> BaseException | None:
    """Run `call` in a new thread, and wait until it returns.

    Python can't interrupt a call that hangs in a library. After the timeout the call continues in
    its daemon thread, which ends with the process.

    Returns:
        exception of any class that the call raised; None if it raised none.

    Raises:
        TimeoutError: the call takes longer than `seconds`.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:  # includes SystemExit, which would end this thread only
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    countdown = Countdown(seconds)
    thread.start()
    while thread.is_alive():
        if countdown.expired():
            raise TimeoutError
        thread.join(min(TICK, seconds))
    return raised[0] if raised else None
