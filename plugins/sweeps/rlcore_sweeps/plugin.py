"""Register this package with rlcore, and record evaluations of jobs of a study."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import observer

if TYPE_CHECKING:
    from rlcore.contracts.run import Run

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """List the command, which `-m` of other commands is short for."""
    return [
        ComponentSpec(
            kind="command",
            name="sweep",
            target="rlcore_sweeps.command:main",
            summary="run a sweep: sweep train EXPERIMENT key=a,b; train ... -m is short for it",
        ),
    ]


@hookimpl
def rlcore_sweep(verb: str, words: Sequence[str], config_dirs: Sequence[str | Path]) -> list[Path]:
    """Run a sweep as the command does."""
    from rlcore_sweeps.command import run_sweep

    return run_sweep(verb, words, config_dirs=config_dirs)


@observer
def rlcore_after_eval(run: Run, label: str, metrics: dict[str, float]) -> None:
    """Record an evaluation of a study's job, and stop the run if its pruner says so."""
    from rlcore_sweeps.pruning import JOB, record_evaluation

    if job := os.environ.get(JOB):
        record_evaluation(run, label, metrics, Path(job).parent, int(Path(job).name))
