"""Run `rlcore eval RUN --verify [overrides]`, which `rlcore eval` hands on: compare all files of a
checkpoint with their digests, and each episode with the evaluation kept with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rlcore.api import evaluate, open_run
from rlcore.cli.eval import EVAL, VERIFY, configure
from rlcore.cli.request import Request
from rlcore.cli.verbs import run_verb
from rlcore.config.catalog import BY_RECIPE
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Verify; see :func:`rlcore.cli.verbs.run_verb`."""
    words = [VERIFY, *(word for word in arguments if word != VERIFY)]
    verifies = partial(evaluate, loop="rlcore_tools.verify:run")
    return run_verb(replace(EVAL, call=verifies), words, of_named_run)


def of_named_run(request: Request, overrides: Sequence[str]) -> RunConfig:
    """The configuration of the run that is named first.

    Raises:
        ConfigError: none is named.
    """
    if not overrides or not overrides[0].startswith(BY_RECIPE):
        raise ConfigError("which run should be verified?", hint="rlcore eval RUN --verify")
    open_run(overrides[0].removeprefix(BY_RECIPE))  # says what is wrong with its name
    return configure(request, overrides, verify=True)
