"""Show the trace of an episode as a table, and name the split of a trial."""

from __future__ import annotations

import numpy as np
from rich.table import Table
from rich.text import Text

from rlcore.api import Trace
from rlcore.contracts.specs import EnvSpec

ROWS_SHOWN = 60  # most rows of a table; the middle of a longer episode is left out


def split_of(spec: EnvSpec, trial: int) -> str:
    """Return the name of the split that a trial belongs to: "train", "held-out" or "validation"."""
    split = next(name for name, trials in spec.splits.items() if trial in trials)
    return split.replace("heldout", "held-out")


def trace_table(trace: Trace, title: str) -> Table:
    """Return a table with one row per decision: env steps, reward, value and log-prob.

    If the policy gives several values, the first is listed, that of the observation decided on. The
    log-prob is the sum over all entries of the executed actions of the chunk, from
    `Policy.evaluate`, which may be nonzero even if the policy acted without exploration noise.
    """
    table = Table(title=Text(title), title_justify="left")
    for name in ("decision", "steps", "reward", "value", "log-prob", "lowest entry"):
        table.add_column(name, justify="right")
    table.add_column("")
    arrays = trace.arrays
    valid = arrays["valid"]
    steps_done = np.cumsum(valid.sum(1))
    total = len(valid)
    head = ROWS_SHOWN // 2
    listed = range(total) if total <= ROWS_SHOWN else [*range(head), *range(total - head, total)]
    for t in listed:
        if t == total - head and total > ROWS_SHOWN:
            table.add_row(*["..."] * 6)
        logprobs = arrays["evaluated_logprobs"][t][valid[t]]
        table.add_row(
            str(t),
            f"{steps_done[t] - valid[t].sum()}-{steps_done[t]}",
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
