"""Run `rlcore eval [RUN | EXPERIMENT] protocol=NAME [overrides]`, which `rlcore eval` delegates.

It evaluates a policy under all settings of a plugin's protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlcore.cli.eval import EVAL, PROTOCOL, configure
from rlcore.cli.request import TRUST, Request
from rlcore.cli.verbs import run_verb
from rlcore.config.catalog import BY_RECIPE, is_folder
from rlcore.config.overrides import overridden_keys, quote
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import load_plugins

FLAG = "--protocol"
EVAL_PROTOCOL = replace(
    EVAL,
    loop="rlcore.training.protocol.play:run",
    form=replace(
        EVAL.form,
        flags={**TRUST, FLAG: {"metavar": "NAME", "help": "settings to evaluate with"}},
    ),
    call=None,
    loop_flags=("protocol",),
    further_sides="rlcore.training.protocol.rows:rows_of",
)


def main(arguments: Sequence[str]) -> int:
    """Evaluate; see :func:`rlcore.cli.verbs.run_verb`."""
    protocols = [word for word in arguments if word.startswith(PROTOCOL)]
    rest = [word for word in arguments if word not in protocols]
    if not protocols and not {"-h", "--help"}.isdisjoint(rest):
        return run_verb(EVAL_PROTOCOL, rest)
    name = _registered_name([word.partition("=")[2] for word in protocols])
    return run_verb(EVAL_PROTOCOL, [*rest, f"{FLAG}={name}"], under_protocol)


def under_protocol(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Return the configuration of `rlcore eval` for a protocol.

    If a run is evaluated, the protocol's name is appended to the name of the new run.

    Args:
        request: the command line, with the protocol's name as option.
        overrides: the run or recipe, and overrides.

    Raises:
        UserError: as :func:`rlcore.cli.eval.configure`, or a row of the protocol uses starts that
            the run was trained on.
    """
    from rlcore.runs.folder import RunFolder
    from rlcore.training.protocol.rows import rows_of
    from rlcore.training.trained_on import check_untrained

    name = request.options["protocol"]
    first = overrides[0].removeprefix(BY_RECIPE) if overrides else ""
    names_run = bool(overrides) and overrides[0].startswith(BY_RECIPE) and is_folder(first)
    if names_run:
        run = RunFolder.containing(Path(first).resolve()).name
        name_of_run = f"runner.logger.experiment_name={quote(f'{run}-{name}')}"
        overrides = [overrides[0], name_of_run, *overrides[1:]]
    config = configure(request, overrides)
    if names_run:
        for row in rows_of(config, protocol=name, given=overridden_keys(overrides)).values():
            check_untrained(row, RunFolder.containing(Path(first).resolve()))
    return config


def _registered_name(names: Sequence[str]) -> str:
    """Return the name of the protocol.

    Raises:
        ConfigError: not exactly one protocol is named.
        PluginError: the protocol is not registered.
    """
    if len(names) != 1:
        raise ConfigError(
            f"one protocol at a time, got {', '.join(names) or 'none'}",
            hint="rlcore eval RUN protocol=NAME",
        )
    return load_plugins().get("protocol", names[0]).spec.name
