"""Run `rlcore collect [EXPERIMENT] [overrides]`; an env with an expert is all it needs."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.cli.verbs import Verb, run_verb

COLLECT = Verb(
    "collect",
    "rlcore.training.collect:run",
    require=("env",),
    makes="demonstrations",
    trains=lambda _: True,
)


def main(arguments: Sequence[str]) -> int:
    """Collect; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(COLLECT, arguments)
