"""Run `rlcore eval [RUN | EXPERIMENT] [overrides]`.

Given the folder of a run (or of one of its checkpoints), use the run's own configuration and
evaluate its latest checkpoint (or that one) under the same protocol. A command line with `--verify`
or `protocol=NAME` is delegated to the command `verify` or `protocol`; `verify` repeats a stored
evaluation and compares the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.api import NEEDED_TO_ACT, evaluate
from rlcore.api.run import config_to_evaluate
from rlcore.cli.request import ALL_FILES, TRUST, Form, Request
from rlcore.cli.verbs import Verb, delegate_to, run_verb
from rlcore.config.catalog import BY_RECIPE
from rlcore.config.schema import RunConfig

PROTOCOL = ("protocol=", "--protocol=")
"""Beginnings of the words by which the command line is delegated to the command `protocol`."""
VERIFY = "--verify"
EVAL = Verb(
    "eval",
    "rlcore.training.evaluate:run",
    form=Form(
        "[RUN_FOLDER | EXPERIMENT] [--verify] [protocol=NAME]",
        flags={
            **TRUST,
            VERIFY: {
                "action": "store_true",
                "help": f"{ALL_FILES}; then repeat the evaluation that is stored with it, and "
                "compare success, return, length and measures of each episode. For the folder of "
                "an rlcore eval: repeat and compare that evaluation, without a check of files",
            },
        },
        takes_folder=True,
    ),
    require=NEEDED_TO_ACT,
    call=evaluate,
)


def main(arguments: Sequence[str]) -> int:
    """Evaluate; see :func:`rlcore.cli.verbs.run_verb`."""
    if any(word.startswith(PROTOCOL) for word in arguments):
        return delegate_to("protocol", arguments)
    if VERIFY in arguments:
        return delegate_to("verify", arguments)
    return run_verb(EVAL, arguments, configure)


def configure(request: Request, overrides: Sequence[str], *, verify: bool = False) -> RunConfig:
    """Return the configuration of the run whose folder is named first; else compose one.

    Raises:
        UserError: as for :func:`rlcore.api.run.config_to_evaluate`.
    """
    folder = None
    if overrides and overrides[0].startswith(BY_RECIPE):
        folder = overrides[0].removeprefix(BY_RECIPE)
        overrides = overrides[1:]
    return config_to_evaluate(
        folder,
        *overrides,
        config_dirs=request.config_dirs,
        trust=request.options["trust"],
        verify=verify,
    )
