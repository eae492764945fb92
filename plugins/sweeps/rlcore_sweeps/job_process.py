"""Be the process of a job: `rlcore` on cores of its own, which ends when the sweep's process does.

python -m rlcore_sweeps.job_process PARENT CORES VERB [WORDS]
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

import psutil

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent: int, cores: list[int], words: list[str]) -> int:
    """Pin the process to cores, end it with its parent, and run an rlcore command.

    Both limits hold on Linux only.

    Args:
        parent: process id of the sweep.
        cores: core numbers to pin to; empty: the affinity is inherited.
        words: arguments of `rlcore`.

    Returns:
        the exit code of the command; 143 if the parent had ended before it could be watched.
    """
    if psutil.LINUX:
        if cores:
            os.sched_setaffinity(0, cores)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent ended before prctl, so no signal will come
            return 128 + signal.SIGTERM
    sys.argv = [str(Path(sys.executable).with_name("rlcore")), *words]

    from rlcore.cli.main import main as rlcore

    return rlcore(words)


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[2].split(",") if number]
    sys.exit(main(int(sys.argv[1]), numbers, sys.argv[3:]))
