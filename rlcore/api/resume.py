"""Resume a run from its last checkpoint. `rlcore resume` calls the same functions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.api.launch import Callback, Draft
from rlcore.api.run import RunResult, train
from rlcore.api.saved_run import open_run
from rlcore.config.catalog import COMPONENT_GROUPS, is_folder
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.runs.folder import RunFolder

ITS_PLACE = ("runner.logger.log_path", "runner.logger.experiment_name", "runner.resume_dir")
"""Keys that the folder passed to :func:`resume` determines, so that they can't be overridden."""


def resume(
    run: str | os.PathLike[str],
    *overrides: str,
    callbacks: Callback | object | Sequence[Callback | object] = (),
    verify: bool = False,
    trust: bool = False,
) -> RunResult:
    """Resume a run from its last checkpoint, in its folder: `rlcore resume` in this process.

    Args:
        run: the folder of the run, or of the checkpoint to resume from; or what
            :func:`rlcore.train` or :func:`rlcore.open_run` returned.
        overrides: `key=value`, for keys that a resumed run may change; `runner.max_epochs=6`
            extends a run that has ended.
        callbacks: as for :func:`rlcore.train`; a run does not store them, so give them again.
        verify: compare all files of the checkpoint with their digests; without it, large files are
            checked by size and header only.
        trust: whether to allow keys of the run's configuration that can run code of its author.

    Raises:
        UserError: the run or checkpoint does not exist or is damaged, a key can't be changed,
            nothing is left to do; or as for :func:`rlcore.train`.
        KeyboardInterrupt: the run was asked to stop; it wrote a checkpoint if it could.
    """
    config = config_to_resume(run, *overrides, verify=verify, trust=trust)
    return train(Draft(config, words=overrides), callbacks=callbacks)


def config_to_resume(
    run: str | os.PathLike[str], *overrides: str, verify: bool = False, trust: bool = False
) -> RunConfig:
    """Return the configuration with which to resume a run in its folder, even if that was moved.

    Args:
        run, overrides, verify, trust: as for :func:`resume`.

    Raises:
        UserError: the folder holds no run or a damaged one, or a key can't be changed.
    """
    from rlcore.config.overrides import quote
    from rlcore.runs.config_edits import warn_of_edits
    from rlcore.runs.folder import SWEEP_TABLE

    if not isinstance(run, (str, os.PathLike)):
        raise ConfigError(
            f"a run is named by its folder, got {type(run).__name__}",
            hint='rlcore.resume("logs/run"), or what rlcore.train returned',
        )
    name = os.fspath(run)
    if is_folder(name) and Path(name, SWEEP_TABLE).is_file():
        raise ConfigError(
            f"{name} is the folder of a sweep; here one run goes on",
            hint=f"name the folder of one of its runs; all of them: rlcore resume {name}",
        )
    for word in overrides:
        if not isinstance(word, str):
            raise ConfigError(f"a change is a word like 'key=value', got a {type(word).__name__}")
        if (key := word.lstrip("+~").partition("=")[0]) in ITS_PLACE:
            raise ConfigError(
                f"{word[:200]}: a run is resumed in its own folder, so {key} can't be changed",
                hint=f"rlcore resume {name}; if the run was moved, name its new folder",
            )
    saved = open_run(run)
    folder = saved.folder
    config = saved.config(
        # its current place: the folder may have been moved, also from another machine
        f"runner.logger.log_path={quote(folder.path.parent)}",
        f"runner.logger.experiment_name={quote(folder.name)}",
        *overrides,
        f"runner.resume_dir={quote(saved.path)}",
        require=tuple(COMPONENT_GROUPS),
        trust=trust,
    )
    if verify:
        _verify(folder, saved.path, config.runner.seed)
    warn_of_edits(folder)
    return config


def _verify(run: RunFolder, named: Path, seed: int) -> None:
    """Compare all files that the run resumes from with their digests, large ones too.

    Raises:
        CheckpointError: a file is damaged.
    """
    from rlcore.files.digests import check_seal
    from rlcore.runs.checkpoint import has_checkpoint, load_checkpoint
    from rlcore.training.supervised_states import check_state, latest_state

    if named != run.path or has_checkpoint(run.checkpoints):
        load_checkpoint(named, verify=True)
    if run.sft.is_dir():
        check_seal(run.sft, seed, verify=True)
    state = latest_state(run)
    if state is not None:
        check_state(state, seed, verify=True)
