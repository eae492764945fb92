"""Run `rlcore eval RUN --verify [overrides]`, which `rlcore eval` delegates.

It compares all files of a checkpoint with their digests, repeats the evaluation that is stored with
the checkpoint, and compares each episode. If RUN is the folder of an evaluation, that evaluation is
repeated, and no files are compared with digests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlcore.api import Draft, open_run, start
from rlcore.cli.eval import EVAL, VERIFY, configure
from rlcore.cli.request import Request
from rlcore.cli.verbs import run_verb
from rlcore.config.catalog import BY_RECIPE
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Verify a checkpoint or an evaluation; see :func:`rlcore.cli.verbs.run_verb`."""
    words = [VERIFY, *(word for word in arguments if word != VERIFY)]
    return run_verb(replace(EVAL, call=_verify), words, of_named_run)


def of_named_run(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Return the configuration that evaluates the run which the first override names.

    Raises:
        ConfigError: no run is named.
    """
    from rlcore.training.verify import of_evaluation

    if not overrides or not overrides[0].startswith(BY_RECIPE):
        raise ConfigError("which run should be verified?", hint="rlcore eval RUN --verify")
    run = open_run(_run_path(overrides))  # raises the error for a wrong name
    if of_evaluation(run.path) is not None:
        return run.config_to_evaluate(None, *overrides[1:], trust=request.options["trust"])
    return configure(request, overrides, verify=True)


def _verify(draft: Draft) -> None:
    start("rlcore.training.verify:run", draft, loop_arguments={"path": _run_path(draft.words)})


def _run_path(overrides: Sequence[str]) -> Path:
    return Path(overrides[0].removeprefix(BY_RECIPE))
