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
from rlcore.checks.doctor_rows import Finding
from rlcore.checks.ready import OF_THE_USER, Makes, look, require
from rlcore.cli.request import ABOUT_HYDRA, PLAIN, Form, Request, parse_request, print_help
from rlcore.config.catalog import COMPONENT_GROUPS
from rlcore.config.compose import IncompleteRecipeError, compose, to_yaml, yaml_below
from rlcore.config.old_names import warn
from rlcore.config.overrides import keys_given
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, PluginError, UserError, file_trouble, joined
from rlcore.plugins.entry_points import LEAVE_OUT
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_component, load_plugins
from rlcore.process import watchdog
from rlcore.terminal.stdio import tolerate_broken_output

if TYPE_CHECKING:
    from rlcore.checks.facts import Facts

RESUME = "rlcore resume RUN goes on from the last checkpoint"
SWEEP_COMMAND = "sweep"  # a command
Configure = Callable[[Request, Sequence[str]], RunConfig]


@dataclass(frozen=True)
class Verb:
    """A command that runs something.

    Attributes:
        name: of the command.
        loop: `"module:function"` that takes the checked :class:`rlcore.session.assembly.Assembly`.
        require: groups without which it can't run.
        form: what its command line has beyond what all have.
        passed: names of its own flags whose values the loop takes too.
        further: `"module:function"` of the configuration, these values and the paths of the keys
            that were given, which gives the configurations of further sides to evaluate on.
        makes: what it is for, whatever the configuration says.
        resumes: whether it can go on with an earlier run.
        call: the function of the Python API that runs it; None: :func:`rlcore.api.start`.
        trains: whether it plays `env.train` also where the configuration only evaluates.
    """

    name: str
    loop: str
    require: tuple[str, ...] = tuple(COMPONENT_GROUPS)
    form: Form = PLAIN
    passed: tuple[str, ...] = ()
    further: str | None = None
    makes: Makes = "updates"
    resumes: bool = False
    call: Callable[[Draft], object] | None = None
    trains: Callable[[Request], bool] = lambda request: False

    def compose(self, request: Request, overrides: Sequence[str]) -> RunConfig:
        """Compose the configuration of one job."""
        return compose(overrides, config_dirs=request.config_dirs, require=self.require)


def run_verb(verb: Verb, arguments: Sequence[str], configure: Configure | None = None) -> int:
    """Do what the command line asks for; returns the exit code.

    Args:
        verb: the command.
        arguments: the words behind it.
        configure: makes a job's configuration; None composes it.
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
    """Hand a command line on to another command; returns its exit code.

    Raises:
        PluginError: it is not installed.
    """
    code: int = load_target(load_plugins().get("command", command).spec.target)(arguments)
    return code


def composed_as_far(
    configure: Configure, request: Request
) -> tuple[RunConfig, Sequence[UserError]]:
    """Compose the configuration as far as possible; return it with what is wrong with the rest."""
    try:
        return configure(request, request.overrides), ()
    except IncompleteRecipeError as error:
        return error.draft, error.several


def _run(
    verb: Verb,
    request: Request,
    config: RunConfig,
    wrong: Sequence[UserError] = (),
) -> None:
    """Print it, or check it and run it."""
    registry = load_plugins()
    if request.show is not None:
        if wrong:
            raise joined(wrong)
        print(yaml_below(to_yaml(config), request.package), end="")
        return
    if not verb.resumes:
        _refuse_resuming(verb, config)
    with _failure_file_hint(verb), watchdog.guard(config.cluster.timeouts.stop):
        passed = {name: request.options[name] for name in verb.passed}
        further = {}
        if verb.further:
            given = keys_given(request.overrides)
            further = load_target(verb.further)(config, given=given, **passed)
        trains = verb.trains(request)
        if request.dry_run:
            _show(verb, config, *look(
                config, registry, further, wrong=wrong, given=request.overrides,
                makes=verb.makes, trains=trains, only_look=True,
            ))  # fmt: skip
            return
        draft = Draft(config, wrong, request.overrides)
        if verb.call is not None:
            verb.call(draft)
        else:
            start(verb.loop, draft, further=further, makes=verb.makes, trains=trains, passed=passed)


def _show(verb: Verb, config: RunConfig, facts: Facts | None, findings: Sequence[Finding]) -> None:
    """Print `--dry-run`: what runs, the placement with an estimate of memory, which demonstrations
    it learns from, what the recipe is known to cost, and the findings.

    Raises:
        UserError: what the run would be refused for on any machine.
    """
    logger = config.runner.logger
    print(*config.recipe.choices, "->", Path(logger.log_path, logger.experiment_name))
    functions = load_plugins().names("function")
    if facts is not None and "placement_table" in functions:
        print(load_component("function", "placement_table")(facts))
    stays = (type(None), *OF_THE_USER)
    shown = [one for one in findings if isinstance(one.error, stays)]
    costs = []
    if "said_costs" in functions:
        costs = load_component("function", "said_costs")(config, load_plugins())
    learned = list[str]()
    if facts is not None and "said_demonstrations" in functions:
        say = load_component("function", "said_demonstrations")
        learned += filter(None, [say(facts, collects=verb.makes == "demonstrations")])
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
    """Say what comes next where a run ends by a file, or by `sys.exit`. rlcore doesn't call that in
    here: a plugin that does would end a run as if all were well.

    Raises:
        UserError: of a file, for a verb that resumes; others are given again.
        PluginError: it says where `sys.exit` was.
    """
    try:
        yield
    except OSError as error:
        told = file_trouble(error, RESUME) if verb.resumes else None
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
