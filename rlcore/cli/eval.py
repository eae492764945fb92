"""Run `rlcore eval [RUN | EXPERIMENT] [overrides]`.

Given the folder of a run (or of one of its checkpoints), use the run's own configuration and
evaluate its latest checkpoint (or that one) under the same protocol. With `--verify`, also compare
all files of the checkpoint with their digests, and each episode with the evaluation stored with
the checkpoint. With `protocol=NAME`, evaluate the policy under all settings of a plugin's protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.cli.config_edits import warn_of_edits
from rlcore.cli.request import ALL_FILES, TRUST, Form, Request, is_folder
from rlcore.cli.verbs import Verb, run_verb
from rlcore.config.catalog import BY_RECIPE, EXPERIMENT, SIDES, Catalog
from rlcore.config.compose import load
from rlcore.config.overrides import keys_given, quote
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, did_you_mean
from rlcore.plugins.registry import load_plugins

if TYPE_CHECKING:
    from rlcore.run_folder.checkpoint import Checkpoint

PROTOCOL, PROTOCOL_FLAG = "protocol=", "--protocol="
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
UNDER = replace(
    EVAL,
    loop="rlcore.evaluation.protocol:run",
    form=replace(
        EVAL.form,
        flags={**TRUST, "--protocol": {"metavar": "NAME", "help": "settings to evaluate with"}},
    ),
    passed=("protocol",),
    further="rlcore.evaluation.protocol_rows:rows_of",
)


def main(arguments: Sequence[str]) -> int:
    """Evaluate; see :func:`rlcore.cli.verbs.run_verb`."""
    named = [word for word in arguments if word.startswith((PROTOCOL, PROTOCOL_FLAG))]
    if named:
        rest = [word for word in arguments if word not in named]
        name = _known([word.partition("=")[2] for word in named])
        return run_verb(UNDER, [*rest, f"{PROTOCOL_FLAG}{name}"], under_protocol)
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
            _check_untrained(config, Path(first))
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


def under_protocol(request: Request, overrides: Sequence[str]) -> RunConfig:
    """As :func:`configure`; the evaluation of a run has the protocol in its name.

    Raises:
        UserError: as there, or a row of the protocol is on starts that the run trained on.
    """
    from rlcore.evaluation.protocol_rows import rows_of
    from rlcore.run_folder.folder import RunFolder

    name = request.options["protocol"]
    first = overrides[0].removeprefix(BY_RECIPE) if overrides else ""
    of_a_run = bool(overrides) and overrides[0].startswith(BY_RECIPE) and is_folder(first)
    if of_a_run:
        run = RunFolder.containing(Path(first).resolve()).name
        called = f"runner.logger.experiment_name={quote(f'{run}-{name}')}"
        overrides = [overrides[0], called, *overrides[1:]]
    config = configure(request, overrides)
    if of_a_run:
        for row in rows_of(config, protocol=name, given=keys_given(overrides)).values():
            _check_untrained(row, Path(first))
    return config


def _check_untrained(config: RunConfig, folder: Path) -> None:
    from rlcore.run_folder.folder import RunFolder
    from rlcore.session.trained_on import check_untrained

    check_untrained(config, RunFolder.containing(folder.resolve()))


def _known(names: Sequence[str]) -> str:
    """Return the one protocol asked for, after checking that it exists."""
    if len(names) > 1:
        raise ConfigError(f"one protocol at a time, got {', '.join(names)}")
    return load_plugins().get("protocol", names[0]).spec.name


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
    _check_untrained(config, Path(folder))
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
