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
from rlcore.checks.demonstrations import describe_demonstrations
from rlcore.checks.doctor_rows import Finding
from rlcore.checks.placement_table import placement_table
from rlcore.checks.ready import OF_THE_USER, Makes, look, require
from rlcore.cli.request import ABOUT_HYDRA, PLAIN, Form, Request, parse_request, print_help
from rlcore.config.catalog import COMPONENT_GROUPS
from rlcore.config.compose import IncompleteRecipeError, compose, to_yaml, yaml_below
from rlcore.config.costs import recipe_costs
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

RESUME = "rlcore resume RUN goes on from the last checkpoint"
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
            evaluate on, by the name of their side; None: there are none. It takes the
            configuration, the values of `loop_flags`, and as `given` the paths of the keys that
            were given.
        purpose: what the command does, whatever the configuration says.
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
    purpose: Makes = "updates"
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
        _run(verb, request, *composed_as_far(configure, request))
    return 0


def delegate_to(command: str, arguments: Sequence[str]) -> int:
    """Run another command with these arguments, and return its exit code.

    Raises:
        PluginError: the command is not installed.
    """
    code: int = load_target(load_plugins().get("command", command).spec.target)(arguments)
    return code


def composed_as_far(
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
    wrong: Sequence[UserError] = (),
) -> None:
    """Print the configuration or the plan of a dry run, or else check the configuration and run."""
    registry = load_plugins()
    if request.show is not None:
        if wrong:
            raise join_errors(wrong)
        print(yaml_below(to_yaml(config), request.package), end="")
        return
    if not verb.resumes:
        _refuse_resuming(verb, config)
    with _failure_file_hint(verb), watchdog.guard(config.cluster.timeouts.stop):
        passed = {name: request.options[name] for name in verb.loop_flags}
        further = {}
        if verb.further_sides:
            given = overridden_keys(request.overrides)
            further = load_target(verb.further_sides)(config, given=given, **passed)
        trains = verb.plays_train(request)
        if request.dry_run:
            _show(verb, config, *look(
                config, registry, further, wrong=wrong, given=request.overrides,
                makes=verb.purpose, trains=trains, only_look=True,
            ))  # fmt: skip
            return
        draft = Draft(config, wrong, request.overrides)
        if verb.call is not None:
            verb.call(draft)
        else:
            start(
                verb.loop,
                draft,
                further=further,
                purpose=verb.purpose,
                plays_train=trains,
                loop_arguments=passed,
            )


def _show(verb: Verb, config: RunConfig, facts: Facts | None, findings: Sequence[Finding]) -> None:
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
    stays = (type(None), *OF_THE_USER)
    shown = [one for one in findings if isinstance(one.error, stays)]
    costs = recipe_costs(config, load_plugins())
    learned = list[str]()
    if facts is not None:
        collects = verb.purpose == "demonstrations"
        learned += filter(None, [describe_demonstrations(facts, collects=collects)])
    last = "the configuration: --cfg job in place of --dry-run"
    print(*learned, *costs, *shown, last, sep="\n")
    require(findings, but=OF_THE_USER)


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
        told = file_error(error, RESUME) if verb.resumes else None
        if told is None:
            raise
        raise told from error
    except SystemExit as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise PluginError(
            f"the run was ended by sys.exit({error.code!r}) in {at.name}, line {at.lineno} of "
            f"{at.filename}: a plugin must raise an error instead",
            hint=f"rlcore plugins; {LEAVE_OUT}",
        ) from None
