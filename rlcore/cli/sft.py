"""Run `rlcore sft [EXPERIMENT] [overrides]`."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.cli.request import Request
from rlcore.cli.verbs import Verb, run_verb
from rlcore.config.schema import RunConfig

SFT = Verb("sft", "rlcore.training.sft:run", makes="supervised")


def main(arguments: Sequence[str]) -> int:
    """Train supervised; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(SFT, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """As it is composed, with supervised training, so that what it needs is checked."""
    return SFT.compose(request, ["sft.enabled=true", *overrides])
