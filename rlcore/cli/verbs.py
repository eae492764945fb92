"""Run a verb: read its arguments, compose the configuration, check it, start the loop.

arguments --compose--> Draft --> rlcore.api: train, evaluate, or start
                         '-- --dry-run, --cfg: print and stop
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.api import Draft, start
from rlcore.checks.demonstrations import describe_demonstrations, describe_plateau
from rlcore.checks.doctor_rows import Finding
from rlcore.checks.placement_table import placement_table
from rlcore.checks.ready import MISSING_INPUTS, Purpose, find_obstacles, require
from rlcore.cli.request import ABOUT_HYDRA, PLAIN, Form, Request, parse_request, print_help
from rlcore.config.catalog import COMPONENT_GROUPS
from rlcore.config.compose import compose, to_yaml, yaml_below
from rlcore.config.costs import recipe_costs
from rlcore.config.layers import IncompleteRecipeError
from rlcore.config.overrides import overridden_keys
from rlcore.config.schema import RunConfig
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError, PluginError, UserError, file_error, join_errors
from rlcore.plugins.entry_points import LEAVE_OUT
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins
from rlcore.utils import watchdog
from rlcore.utils.stdio import tolerate_broken_output

if TYPE_CHECKING:
    from rlcore.checks.facts import Facts

RESUME = "rlcore resume RUN continues from the last checkpoint"
SWEEP_COMMAND = "sweep"  # command of rlcore-sweeps
Configure = Callable[[Request, Sequence[str]], RunConfig]


@dataclass(frozen=True)
class Verb:
    """A command that composes a configuration and runs a loop on it.

    Attributes:
        name: name of the command.
        loop: `"module:function"` that takes the checked :class:`rlcore.training.assembly.Assembly`.
        require: groups of which the configuration must name a component.
        form: the parts of its command line that differ from other verbs.
        loop_flags: names of flags in `form` whose values are passed to the loop as keyword
            arguments.
        further_sides: `"module:function"` that returns configurations of further sides to
            evaluate on, by the name of their side; None if the command has no further sides. It
            takes the configuration, the values of `loop_flags`, and as `given` the paths of the
            overridden keys.
        purpose: purpose of the command, whatever the configuration says.
        resumes: whether it can resume an earlier run.
        call: function of the Python API that runs it; None for :func:`rlcore.api.start`.
        plays_train: returns whether it plays `env.train` even if the configuration only evaluates.
    """

    name: str
    loop: str
    require: tuple[str, ...] = tuple(COMPONENT_GROUPS)
    form: Form = PLAIN
    loop_flags: tuple[str, ...] = ()
    further_sides: str | None = None
    purpose: Purpose = "updates"
    resumes: bool = False
    call: Callable[[Draft], object] | None = None
    plays_train: Callable[[Request], bool] = lambda request: False

    def compose(self, request: Request, overrides: Sequence[str]) -> RunConfig:
        """Compose the configuration of a run from the overrides.

        Raises:
            UserError: as for :func:`rlcore.config.compose.compose`.
        """
        return compose(overrides, config_dirs=request.config_dirs, require=self.require)


def run_verb(verb: Verb, arguments: Sequence[str], configure: Configure | None = None) -> int:
    """Parse a verb's command line, execute it, and return the exit code.

    Args:
        verb: the command.
        arguments: words after the command.
        configure: returns the configuration of the run; None for :meth:`Verb.compose`.

    Raises:
        UserError: the command line or the configuration is invalid, or the run failed.
    """
    request = parse_request(verb.name, arguments, verb.form)
    if request.help:
        print_help(verb.name, request, verb.form)
        return 0
    configure = configure or verb.compose
    if request.multirun or request.show in ABOUT_HYDRA:
        return delegate_to(SWEEP_COMMAND, [verb.name, *arguments])
    runs = request.show is None and not request.dry_run
    with tolerate_broken_output() if runs else contextlib.nullcontext():
        _run(verb, request, *compose_leniently(configure, request))
    return 0


def delegate_to(command: str, arguments: Sequence[str]) -> int:
    """Run another command with these arguments, and return its exit code.

    Raises:
        PluginError: the command is not installed.
    """
    code: int = load_target(load_plugins().get("command", command).spec.target)(arguments)
    return code


def compose_leniently(
    configure: Configure, request: Request
) -> tuple[RunConfig, Sequence[UserError]]:
    """Compose the configuration as far as possible.

    Returns:
        The configuration, with defaults in place of invalid or missing values; and their errors.
    """
    try:
        return configure(request, request.overrides), ()
    except IncompleteRecipeError as error:
        return error.draft, error.errors


def _run(
    verb: Verb,
    request: Request,
    config: RunConfig,
    errors: Sequence[UserError] = (),
) -> None:
    """Print the configuration or the plan of a dry run, or else check the configuration and run."""
    registry = load_plugins()
    if request.show is not None:
        if errors:
            raise join_errors(errors)
        print(yaml_below(to_yaml(config), request.package), end="")
        return
    if not verb.resumes:
        _refuse_resuming(verb, config)
    with _failure_file_hint(verb), watchdog.guard(config.cluster.timeouts.stop):
        loop_arguments = {name: request.options[name] for name in verb.loop_flags}
        further = {}
        if verb.further_sides:
            keys = overridden_keys(request.overrides)
            further = load_target(verb.further_sides)(config, given=keys, **loop_arguments)
        plays_train = verb.plays_train(request)
        if request.dry_run:
            facts, findings = find_obstacles(
                config,
                registry,
                further,
                errors=errors,
                words=request.overrides,
                purpose=verb.purpose,
                plays_train=plays_train,
                only_look=True,
            )
            _show_plan(verb, config, facts, findings)
            return
        draft = Draft(config, errors, request.overrides)
        if verb.call is not None:
            verb.call(draft)
        else:
            start(
                verb.loop,
                draft,
                further=further,
                purpose=verb.purpose,
                plays_train=plays_train,
                loop_arguments=loop_arguments,
            )


def _show_plan(
    verb: Verb, config: RunConfig, facts: Facts | None, findings: Sequence[Finding]
) -> None:
    """Print the output of `--dry-run`.

    It consists of the choices and the run's folder, the placement with the estimated memory, the
    demonstrations that are learned from, the recipe's known cost, and the findings.

    Raises:
        UserError: findings that would prevent the run on any machine.
    """
    logger = config.runner.logger
    print(*config.recipe.choices, "->", Path(logger.log_path, logger.experiment_name))
    if facts is not None:
        print(placement_table(facts))
    costs = recipe_costs(config, load_plugins())
    if facts is not None:
        collects = verb.purpose == "demonstrations"
        data = describe_demonstrations(facts, collects=collects)
        plateau = "" if collects else describe_plateau(facts)
        for line in filter(None, (*data, plateau)):
            print(line)
    for line in costs:
        print(line)
    for finding in findings:
        if finding.error is None or isinstance(finding.error, MISSING_INPUTS):
            print(finding)
    print("the configuration: --cfg job in place of --dry-run")
    require(findings, but=MISSING_INPUTS)


def _refuse_resuming(verb: Verb, config: RunConfig) -> None:
    runner = config.runner
    if runner.resume_dir is not None:
        raise ConfigError(
            f"runner.resume_dir must be null: rlcore {verb.name} does not resume runs, got "
            f"{runner.resume_dir}",
            hint=f"rlcore resume {runner.resume_dir}",
        )
    if runner.auto_resume:
        warn(f"runner.auto_resume=true does nothing: rlcore {verb.name} does not resume runs")


@contextlib.contextmanager
def _failure_file_hint(verb: Verb) -> Iterator[None]:
    """Return a context that turns file errors and `sys.exit` of a run into errors with a hint.

    Within it rlcore itself never calls `sys.exit`. A plugin that does could end the run with
    exit code 0, as if it had succeeded.

    Raises:
        UserError: a file error that the user can fix, in a verb that resumes: the hint is to
            resume. Other file errors are raised unchanged.
        PluginError: `sys.exit` was called; the message says where.
    """
    try:
        yield
    except OSError as error:
        user_error = file_error(error, RESUME) if verb.resumes else None
        if user_error is None:
            raise
        raise user_error from error
    except SystemExit as error:
        caller = traceback.extract_tb(error.__traceback__)[-1]
        raise PluginError(
            f"the run was ended by sys.exit({error.code!r}) in {caller.name}, line {caller.lineno} "
            f"of {caller.filename}: a plugin must raise an error instead",
            hint=f"rlcore plugins; {LEAVE_OUT}",
        ) from None
