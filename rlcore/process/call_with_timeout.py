"""Call a function with a timeout, in a thread. Knows nothing of what is called."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rlcore.process.watchdog import TICK, Countdown


def call_with_timeout(call: Callable[[], object], seconds: float) -> BaseException | None:
    """Call in a thread of its own, and wait until it returns.

    A call that hangs in a library can't be ended from outside. So it is abandoned: its thread
    ends with the process.

    Returns:
        what it raised, whatever the class; None if it raised nothing.

    Raises:
        TimeoutError: it takes longer than `seconds`.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:  # SystemExit too, which would end this thread alone
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    countdown = Countdown(seconds)
    thread.start()
    while thread.is_alive():
        if countdown.expired():
            raise TimeoutError
        thread.join(min(TICK, seconds))
    return raised[0] if raised else None
