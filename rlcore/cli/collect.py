"""Run `rlcore collect [EXPERIMENT] [overrides]`, for which an env with an expert is enough."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.cli.request import Form, Request
from rlcore.cli.verbs import Verb, run_verb
from rlcore.config.schema import RunConfig

COLLECT = Verb(
    "collect",
    "rlcore.training.collect:run",
    require=("env",),
    form=Form(flags={"--format": {"metavar": "NAME", "help": "collect.format, in short"}}),
    purpose="demonstrations",
    plays_train=lambda _: True,
)


def main(arguments: Sequence[str]) -> int:
    """Collect; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(COLLECT, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Compose a configuration with the format that `--format` names."""
    name = request.options["format"]
    if name:
        overrides = [*overrides, f"collect.format={name}"]
    return COLLECT.compose(request, overrides)
