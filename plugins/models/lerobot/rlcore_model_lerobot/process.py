"""Start the process of a policy in another interpreter, and ask it. Knows no tensors."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from rlcore_simulation.child import ChildProcess
from rlcore_simulation.messages import Failure
from rlcore_simulation.translate import decode, encode
from rlcore_simulation.wire import WireError, pack

from rlcore.contracts.errors import WorkerError
from rlcore_model_lerobot.messages import (
    ANSWERS,
    COMMANDS,
    Act,
    Acted,
    Command,
    Done,
    Load,
    Report,
    Save,
)

SECONDS = 600.0
"""Time limit of loading and of a decision; a large checkpoint on a cold disk takes minutes."""
LAST_LINES = 15
OUTPUT_GRACE = 1.0
"""Seconds to wait for the rest of a dead process's output."""
PACKAGES = ("rlcore_model_lerobot", "rlcore_weights")
Answer = TypeVar("Answer", Done, Acted)


class PolicyProcess:
    """Process in which a policy is loaded and acts.

    Args:
        python: its interpreter, or the folder of a virtual environment.
        load: what to load.
        variables: environment variables that replace those of this process.
        seconds: time limit of loading, and of each decision.
        module: module that it runs; a test has its own.

    Raises:
        UserError: it can't be started, or can't load the policy.
    """

    def __init__(
        self,
        python: str,
        load: Load,
        *,
        variables: Mapping[str, str],
        seconds: float = SECONDS,
        module: str = "rlcore_model_lerobot.serve",
    ) -> None:
        self._name = f"LeRobot in {python}"
        self._python = python
        self._seconds = seconds
        self._output = _LastOutput()
        try:
            self._child = ChildProcess(
                self._name,
                module,
                python=python,
                packages=(*PACKAGES, module),
                variables=variables,
                timeout=seconds,
                output=self._output.descriptor,
            )
        finally:
            os.close(self._output.descriptor)
        self._tell(load)
        self._ask(Report(), Done)

    @property
    def pid(self) -> int:
        return self._child.pid

    def act(self, command: Act) -> Acted:
        """Return the actions of B decisions.

        Raises:
            UserError: LeRobot failed; a WorkerError: the process died, or did not answer in time.
        """
        return self._ask(command, Acted)

    def save(self, folder: Path) -> None:
        """Write the policy as LeRobot does.

        Raises:
            UserError: as for :meth:`act`.
        """
        self._ask(Save(str(folder.absolute())), Done)

    def close(self) -> None:
        """End the process; safe to call twice."""
        self._child.close()

    def _tell(self, command: Command) -> None:
        self._child.tell(pack(encode(command, COMMANDS)))

    def _ask(self, command: Command, kind: type[Answer]) -> Answer:
        self._tell(command)
        try:
            reply = decode(self._child.answer(time.monotonic() + self._seconds), ANSWERS)
        except (TimeoutError, BlockingIOError):
            raise self._lost(f"did not answer within {self._seconds:g} s") from None
        except (EOFError, ConnectionError):
            raise self._lost(f"died ({self._child.cause_of_death()})") from None
        except WireError as fault:
            raise self._lost(f"is not understood: {fault}") from None
        if isinstance(reply, Failure):
            if reply.error is not None:
                error = reply.error
                raise type(error)(f"{self._name}: {error.message}", hint=error.hint)
            raise WorkerError(f"{self._name} failed: {reply.summary}\n{reply.traceback}")
        assert isinstance(reply, kind)
        return reply

    def _lost(self, what: str) -> WorkerError:
        """Kill a process that died or hangs, and return the error for it, with its last output."""
        pid = self.pid
        self._child.kill()
        self._child.close()
        printed = self._output.text() or "nothing"
        return WorkerError(
            f"{self._name} (pid {pid}) {what}; it printed last:\n{printed}",
            hint=f"{self._python} must be able to import lerobot.policies.factory; rlcore venv "
            "create lerobot makes an environment in which it can",
        )


class _LastOutput:
    """Output of a process: copied to this process's stderr, and its last lines kept.

    `descriptor` is the end of a pipe to write to; the caller closes it once the process has it.
    """

    def __init__(self) -> None:
        reading, self.descriptor = os.pipe()
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._copier = threading.Thread(target=self._copy, args=(reading,), daemon=True)
        self._copier.start()

    def text(self) -> str:
        """Return the last lines, waiting briefly for those that are still on their way."""
        self._copier.join(OUTPUT_GRACE)
        return b"".join(self._lines).decode(errors="replace").strip()

    def _copy(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                self._lines.append(line)
                os.write(2, line)  # the file descriptor: a worker's is redirected to its log
