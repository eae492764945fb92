"""Run `rlcore resume RUN [--verify] [overrides]`: continue a run from its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore.api import config_to_resume, train
from rlcore.cli.request import ALL_FILES, TRUST, Form, Request
from rlcore.cli.verbs import SWEEP_COMMAND, Verb, delegate_to, run_verb
from rlcore.config.catalog import BY_RECIPE, is_folder
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError

RESUME = Verb(
    "resume",
    "rlcore.training.train:run",
    form=Form(
        "RUN_FOLDER",
        flags={**TRUST, "--verify": {"action": "store_true", "help": ALL_FILES}},
        takes_folder=True,
        sweeps=False,
    ),
    resumes=True,
    call=train,
)


def main(arguments: Sequence[str]) -> int:
    """Resume a run, see :func:`rlcore.cli.verbs.run_verb`.

    The folder of a sweep is delegated to `rlcore sweep resume`.
    """
    from rlcore.runs.folder import SWEEP_TABLE

    first = next((word for word in arguments if not word.startswith("-")), "")
    if is_folder(first) and (Path(first) / SWEEP_TABLE).is_file():
        return delegate_to(SWEEP_COMMAND, ["resume", *arguments])
    return run_verb(RESUME, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Return the configuration of the run that is named first, with the overrides that follow.

    Raises:
        UserError: no run is named, or as for :func:`rlcore.api.config_to_resume`.
    """
    if not overrides or not overrides[0].startswith(BY_RECIPE):
        raise ConfigError(
            "which run should be resumed?", hint="rlcore resume RUN, a folder like logs/quickstart"
        )
    folder = overrides[0].removeprefix(BY_RECIPE)
    return config_to_resume(folder, *overrides[1:], **request.options)
