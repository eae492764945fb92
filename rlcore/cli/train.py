"""Run `rlcore train [EXPERIMENT] [overrides]`."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.api import train
from rlcore.cli.verbs import Verb, run_verb

TRAIN = Verb("train", "rlcore.training.train:run", resumes=True, call=train)


def main(arguments: Sequence[str]) -> int:
    """Train; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(TRAIN, arguments)
