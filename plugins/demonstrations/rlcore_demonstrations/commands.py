"""Run `rlcore collect [EXPERIMENT] [overrides]`, for which an env with an expert is enough, and
`rlcore sft [EXPERIMENT] [overrides]`."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.cli.request import Form, Request
from rlcore.cli.verbs import Verb, run_verb
from rlcore.config.schema import RunConfig

COLLECT = Verb(
    "collect",
    "rlcore_demonstrations.collect:run",
    require=("env",),
    form=Form(flags={"--format": {"metavar": "NAME", "help": "collect.format, in short"}}),
    purpose="demonstrations",
    plays_train=lambda _: True,
)
SFT = Verb("sft", "rlcore_demonstrations.sft:run", purpose="supervised")


def collect(arguments: Sequence[str]) -> int:
    """Collect; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(COLLECT, arguments, _to_collect)


def _to_collect(request: Request, overrides: Sequence[str]) -> RunConfig:
    form = request.options["format"]
    return COLLECT.compose(request, [*overrides, *([f"collect.format={form}"] if form else [])])


def sft(arguments: Sequence[str]) -> int:
    """Train supervised; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(SFT, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Compose a configuration with supervised training enabled, so that its needs are checked."""
    return SFT.compose(request, ["sft.enabled=true", *overrides])
