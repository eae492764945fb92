"""Run `rlcore eval [RUN | EXPERIMENT] [overrides]`.

Given the folder of a run (or of one of its checkpoints), use the run's own configuration and
evaluate its latest checkpoint (or that one) under the same protocol. With `--verify`, also compare
all files of the checkpoint with their digests, and each episode with the evaluation stored with
the checkpoint. `protocol=NAME` is for the command of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.cli.config_edits import warn_of_edits
from rlcore.cli.request import ALL_FILES, TRUST, Form, Request, is_folder
from rlcore.cli.verbs import Verb, hand_on, run_verb
from rlcore.config.catalog import BY_RECIPE, EXPERIMENT, SIDES, Catalog
from rlcore.config.compose import load
from rlcore.config.overrides import quote
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, did_you_mean
from rlcore.plugins.registry import load_plugins

if TYPE_CHECKING:
    from rlcore.run_folder.checkpoint import Checkpoint

PROTOCOL = ("protocol=", "--protocol=")
"""How the words begin that are for the command `protocol`."""
VERIFY = "--verify"
EVAL = Verb(
    "eval",
    "rlcore.evaluation.evaluate:run",
    form=Form(
        "[RUN_FOLDER | EXPERIMENT] [--verify] [protocol=NAME]",
        flags={
            **TRUST,
            VERIFY: {
                "action": "store_true",
                "help": f"{ALL_FILES}; then repeat the evaluation that was kept with it, and "
                "compare each episode",
            },
        },
        takes_folder=True,
    ),
    require=("env", "model"),
)


def main(arguments: Sequence[str]) -> int:
    """Evaluate; see :func:`rlcore.cli.verbs.run_verb`."""
    if any(word.startswith(PROTOCOL) for word in arguments):
        return hand_on("protocol", arguments)
    if VERIFY in arguments:
        return run_verb(replace(EVAL, loop="rlcore.evaluation.verify:run"), arguments, of_named_run)
    return run_verb(EVAL, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Take the configuration of a run's folder if one is named first; else compose one.

    Raises:
        UserError: the folder holds no run, or no checkpoint, or it was trained on these starts.
    """
    first = overrides[0].removeprefix(BY_RECIPE) if overrides else ""
    if overrides and overrides[0].startswith(BY_RECIPE):
        if is_folder(first):
            config = of_run(Path(first), overrides[1:], trust=request.options["trust"])
            check_untrained_there(config, Path(first))
            return config
        catalog = Catalog(load_plugins(), request.config_dirs)
        if catalog.recipe(first)[0] is None:
            raise CheckpointError(
                f"{first[:200]!r} is neither the folder of a run nor an experiment."
                f"{did_you_mean(first, catalog.options(EXPERIMENT))}",
                hint="rlcore eval RUN, a folder like logs/quickstart, or one of rlcore train "
                "--help experiment",
            )
    return EVAL.compose(request, ["runner.only_eval=true", *overrides])


def check_untrained_there(config: RunConfig, folder: Path) -> None:
    """Refuse to evaluate a run at starts that it was trained on."""
    from rlcore.run_folder.folder import RunFolder
    from rlcore.session.trained_on import check_untrained

    check_untrained(config, RunFolder.containing(folder.resolve()))


def of_named_run(request: Request, overrides: Sequence[str]) -> RunConfig:
    """The configuration of the run that is named first.

    Raises:
        ConfigError: none is named.
    """
    from rlcore.run_folder.folder import RunFolder

    if not overrides or not overrides[0].startswith(BY_RECIPE):
        raise ConfigError("which run should be verified?", hint="rlcore eval RUN --verify")
    folder = overrides[0].removeprefix(BY_RECIPE)
    RunFolder.containing(folder)  # says what is wrong with its name
    config = of_run(Path(folder), overrides[1:], trust=request.options["trust"], verify=True)
    check_untrained_there(config, Path(folder))
    return config


def of_run(
    folder: Path, overrides: Sequence[str] = (), *, trust: bool = False, verify: bool = False
) -> RunConfig:
    """As :func:`of_checkpoint`, for the latest checkpoint of a run, or the one that is named.

    For `verify` see :func:`rlcore.run_folder.checkpoint.load_checkpoint`.
    """
    from rlcore.run_folder.checkpoint import load_checkpoint

    return of_checkpoint(load_checkpoint(folder.resolve(), verify=verify), overrides, trust=trust)


def of_checkpoint(
    checkpoint: Checkpoint, overrides: Sequence[str] = (), *, trust: bool = False
) -> RunConfig:
    """The run's configuration with its checkpoint as the model, under a name of its own.

    What it writes goes beside the run, wherever that is now: the run's own places may be those of
    another machine, and are not for a folder from elsewhere to decide.

    Args:
        checkpoint: of the run.
        overrides: changes, which also decide where it is written.
        trust: see :func:`rlcore.config.compose.load`.
    """
    from rlcore.run_folder.folder import RunFolder

    run = RunFolder.containing(checkpoint.path)
    own = [
        "runner.only_eval=true",
        f"actor.model.model_path={quote(checkpoint.policy_path)}",
        f"runner.logger.experiment_name={quote(f'{run.name}-eval')}",
        "runner.resume_dir=null",
        "actor.model.lora_path=null",
        "rollout.model.model_path=null",
        "rollout.model.lora_path=null",
        f"runner.logger.log_path={quote(run.path.parent)}",
        "collect.path=null",
        *(f"env.{side}.video_cfg.video_base_dir=null" for side in SIDES),
    ]
    config = load(run.config, [*own, *overrides], require=EVAL.require, trust=trust)
    warn_of_edits(run)
    return config
