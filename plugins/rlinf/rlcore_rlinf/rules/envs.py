"""Define the rules that several envs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile

LAST_FRAME = ImportRule(
    "",
    "env.*.render_final",
    "the last frame is not read if a time limit counts as a termination",
    lambda _, file: UNSET if file.get("env.train.auto_reset") else False,
)


def one_of(names: dict[str, str], phrase: str) -> Callable[[Any, RLinfFile], str]:
    """Return a conversion that renames `{RLinf's name: rlcore's name}` and refuses other names.

    Args:
        phrase: begin of the error message, before the names.
    """

    def convert(name: Any, _: RLinfFile) -> str:
        if name not in names:
            raise ValueError(f"{phrase} {', '.join(names)}")
        return names[name]

    return convert


def trials_per_task(
    tasks: Callable[[RLinfFile], int] = lambda _: 1,
    note: str = "as many episodes as RLinf, each once",
    most: int | None = None,
) -> ImportRule:
    """Return the rule that evaluates as many episodes as RLinf does.

    Args:
        tasks: number of tasks that a file evaluates.
        most: largest number of trials of a task.
    """

    def trials(_: Any, file: RLinfFile) -> int:
        count = max(1, file.episodes() // tasks(file))
        return count if most is None else min(most, count)

    return ImportRule("", "env.eval.trials_per_task", note, trials)
