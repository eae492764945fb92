"""Run `rlcore sft [EXPERIMENT] [overrides]`."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.cli.request import Request
from rlcore.cli.verbs import AUTO_RESUME, Verb, run_verb
from rlcore.config.schema import RunConfig

SFT = Verb("sft", "rlcore.training.sft:run", purpose="supervised", resumes=AUTO_RESUME)


def main(arguments: Sequence[str]) -> int:
    """Train supervised; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(SFT, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Compose a configuration with supervised training enabled, so that its needs are checked."""
    return SFT.compose(request, ["sft.enabled=true", *overrides])
