"""Resolve the task, trial and replica that a user gives to an episode; show a trace as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from rlcore.api import Trace
from rlcore.contracts.errors import ConfigError, did_you_mean
from rlcore.contracts.specs import EnvSpec, Episode

ROWS_SHOWN = 60  # most rows of a table; the middle of a longer episode is left out


def address(
    spec: EnvSpec, task: str | int | None, trial: int | None, replica: int, *,
    evaluated: Sequence[int],
) -> Episode:  # fmt: skip
    """Return the episode that a user names.

    Args:
        spec: spec of the env.
        task: name of a task, or its index in `spec.tasks`.
        trial: trial of any split.
        replica: number of the replica, from 0.
        evaluated: trials that evaluations of the run visit, for the hint of an error.

    Raises:
        ConfigError: the task, trial or replica does not exist, or no task or trial was given.
    """
    choices = ", ".join(spec.tasks)
    if task is None:
        raise ConfigError(f"which task? --task NAME, one of {choices}")
    task = str(task)  # from Python it may be a number
    if task in spec.tasks:
        number = spec.tasks.index(task)
    elif task.isdecimal() and int(task) < len(spec.tasks):
        number = int(task)
    else:
        raise ConfigError(
            f"task must be one of {choices}, or a number below {len(spec.tasks)}, got {task!r}."
            f"{did_you_mean(task, spec.tasks)}"
        )
    ranges = " or ".join(
        f"{trials.start} to {trials.stop - 1} ({split})" for split, trials in _splits(spec)
    )
    hint = f"evaluations of this run visit {evaluated[0]} to {evaluated[-1]}"
    if trial is None:
        raise ConfigError(f"which trial? --trial NUMBER, {ranges}", hint=hint)
    if not any(trial in trials for _, trials in _splits(spec)):
        raise ConfigError(f"trial must be {ranges}, got {trial!r}", hint=hint)
    if replica < 0:
        raise ConfigError(f"replica must be at least 0, got {replica}")
    return Episode(number, trial, replica)


def split_of(spec: EnvSpec, trial: int) -> str:
    """Return the name of the split that a trial belongs to: "train", "held-out" or "validation"."""
    return next(split for split, trials in _splits(spec) if trial in trials)


def _splits(spec: EnvSpec) -> list[tuple[str, range]]:
    named = {name.replace("heldout", "held-out"): each for name, each in spec.splits.items()}
    return [(name, trials) for name, trials in named.items() if trials]


def trace_table(trace: Trace, title: str) -> Table:
    """Return a table with one row per decision: env steps, reward, value and log-prob.

    If the policy gives several values, the first is shown, that of the observation decided on. The
    log-prob is the sum over all entries of the executed actions of the chunk, from
    `Policy.evaluate`, which may be nonzero even if the policy acted without exploration noise.
    """
    table = Table(title=Text(title), title_justify="left")
    for name in ("decision", "steps", "reward", "value", "log-prob", "lowest entry"):
        table.add_column(name, justify="right")
    table.add_column("")
    arrays = trace.arrays
    valid = arrays["valid"]
    after = np.cumsum(valid.sum(1))
    total = len(valid)
    head = ROWS_SHOWN // 2
    shown = range(total) if total <= ROWS_SHOWN else [*range(head), *range(total - head, total)]
    for t in shown:
        if t == total - head and total > ROWS_SHOWN:
            table.add_row(*["..."] * 6)
        logprobs = arrays["evaluated_logprobs"][t][valid[t]]
        table.add_row(
            str(t),
            f"{after[t] - valid[t].sum()}-{after[t]}",
            f"{arrays['rewards'][t].sum():g}",
            "".join(f"{value:.3f}" for value in arrays["values"][t][:1]) or "-",
            f"{logprobs.sum():.3f}",
            f"{logprobs.min():.3f}",
            _end(trace, t),
        )
    return table


def _end(trace: Trace, t: int) -> str:
    """Return how the decision ended the episode, and whether it was the first to succeed."""
    arrays = trace.arrays
    words = [name for name in ("terminated", "truncated") if arrays[name][t].any()]
    first = arrays["success"][t] and not arrays["success"][:t].any()
    return ", ".join([*words, "success"] if first else words)
