"""Run `rlcore resume RUN [--verify] [overrides]`: continue a run from its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.api import train
from rlcore.cli.request import ALL_FILES, TRUST, Form, Request
from rlcore.cli.verbs import PLAYS_JOBS, Verb, hand_on, run_verb
from rlcore.config.catalog import BY_RECIPE, is_folder
from rlcore.config.compose import load
from rlcore.config.overrides import quote
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.run_folder.folder import RunFolder

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


ITS_PLACE = ("runner.logger.log_path", "runner.logger.experiment_name", "runner.resume_dir")
"""Keys that follow from the folder that is named."""


def main(arguments: Sequence[str]) -> int:
    """Resume; see :func:`rlcore.cli.verbs.run_verb`. What is the folder of a sweep is for the
    command that plays those."""
    from rlcore.run_folder.folder import SWEEP_TABLE

    first = next((word for word in arguments if not word.startswith("-")), "")
    if is_folder(first) and (Path(first) / SWEEP_TABLE).is_file():
        return hand_on(PLAYS_JOBS, ["resume", *arguments])
    return run_verb(RESUME, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """The configuration of the run named first, with changes.

    Raises:
        UserError: no run is named, or the folder holds none.
    """
    from rlcore.run_folder.config_edits import warn_of_edits
    from rlcore.run_folder.folder import RunFolder

    if not overrides or not overrides[0].startswith(BY_RECIPE):
        raise ConfigError(
            "which run should be resumed?", hint="rlcore resume RUN, a folder like logs/quickstart"
        )
    named = overrides[0].removeprefix(BY_RECIPE)
    for word in overrides[1:]:
        if (key := word.lstrip("+~").partition("=")[0]) in ITS_PLACE:
            raise ConfigError(
                f"{word[:200]}: a run is resumed in its own folder, so {key} can't be changed",
                hint=f"rlcore resume {named}; if the run was moved, name its new folder",
            )
    run = RunFolder.containing(named)
    folder = Path(named).absolute()
    place = [  # where it is now: it may have been moved, from another machine too
        f"runner.logger.log_path={quote(run.path.parent)}",
        f"runner.logger.experiment_name={quote(run.name)}",
    ]
    changes = [*place, *overrides[1:], f"runner.resume_dir={quote(folder)}"]
    trust = request.options["trust"]
    config = load(run.config, changes, require=RESUME.require, trust=trust)
    if request.options["verify"]:
        _verify(run, folder, config.runner.seed)
    warn_of_edits(run)
    return config


def _verify(run: RunFolder, named: Path, seed: int) -> None:
    """Raise CheckpointError where a file of any size that the run goes on with is damaged."""
    from rlcore.files.digests import check_seal
    from rlcore.run_folder.checkpoint import has_checkpoint, load_checkpoint

    if named != run.path or has_checkpoint(run.checkpoints):
        load_checkpoint(named, verify=True)
    if run.sft.is_dir():
        check_seal(run.sft, seed, verify=True)
