"""`rlcore sft [EXPERIMENT] [overrides]`."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.cli.main import VERBS
from rlcore.cli.verbs import Verb, run_verb

SFT = Verb("sft", VERBS["sft"], "rlcore.loop.sft:run")


def main(arguments: Sequence[str]) -> int:
    """Train supervised; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(SFT, arguments)
