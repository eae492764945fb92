"""The course of every verb that runs something: arguments, configuration, checks, run.

arguments --> jobs --compose--> RunConfig --check, doctor--> loop.run(config)
                        '-- --dry-run, --cfg: print and stop
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlcore.cli.request import PLAIN, Form, Request, parse_request, print_help
from rlcore.config.bind import SLOTS
from rlcore.config.catalog import COMPONENT_GROUPS
from rlcore.config.compose import compose, to_yaml
from rlcore.config.schema import RunConfig
from rlcore.config.sweep import Job, expand
from rlcore.errors import AssetError, UserError
from rlcore.plugins import Registry, load_plugins, load_target
from rlcore.specs import PolicySpec

NO_POLICY = PolicySpec("no model", 0, 0, 0, 0, 0)
CLUSTER_SESSION = "rlcore.workers.cluster:cluster_session"  # jobs of a sweep share one cluster
Configure = Callable[[Request, Sequence[str]], RunConfig]


@dataclass(frozen=True)
class Verb:
    """A command that runs something.

    Attributes:
        name, summary: for its help.
        loop: `"module:function"` that takes the configuration.
        require: groups without which it can't run.
        form: what its command line has beyond what all have.
        passed: names of its own flags whose values the loop takes too.
        collects: whether it collects demonstrations whatever the configuration says.
    """

    name: str
    summary: str
    loop: str
    require: tuple[str, ...] = tuple(COMPONENT_GROUPS)
    form: Form = PLAIN
    passed: tuple[str, ...] = ()
    collects: bool = False

    def compose(self, request: Request, overrides: Sequence[str]) -> RunConfig:
        """The configuration of one job."""
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
        print_help(verb.name, verb.summary, request, verb.form)
        return 0
    configure = configure or verb.compose
    if request.multirun:
        return _sweep(verb, request, configure)
    _run(verb, request, configure(request, request.overrides))
    return 0


def _run(
    verb: Verb, request: Request, config: RunConfig, shared: contextlib.ExitStack | None = None
) -> None:
    """One job: print it, or check it and run it. `shared` keeps what a sweep's jobs share."""
    registry = load_plugins()
    if request.show is not None:
        print(to_yaml(config), end="")
    elif request.dry_run:
        show_plan(config, registry, collects=verb.collects)
    else:
        _check(config, registry, collects=verb.collects)
        require_assets(config, registry)
        if shared is not None and config.cluster.backend == "ray":
            shared.enter_context(load_target(CLUSTER_SESSION)(config.cluster))
        load_target(verb.loop)(config, **{name: request.options[name] for name in verb.passed})


def _sweep(verb: Verb, request: Request, configure: Configure) -> int:
    """Jobs one after another. One that fails for a reason of the user's does not stop the others;
    all failures are told again at the end."""
    jobs = expand(request.overrides)
    failed: list[tuple[Job, UserError]] = []
    with contextlib.ExitStack() as shared:
        for job in jobs:
            print(f"job {job.index} of {len(jobs)}: {job.label}", flush=True)
            try:
                config = job.place(configure(request, job.overrides))
                _run(verb, request, config, shared)
            except UserError as problem:
                print(f"job {job.index} failed: {problem}", file=sys.stderr, flush=True)
                failed.append((job, problem))
    if not failed:
        return 0
    print(f"{len(failed)} of {len(jobs)} jobs failed:", file=sys.stderr)
    for job, error in failed:
        print(f"  {job.index} {job.label}: {error.message}", file=sys.stderr)
    return 1


def show_plan(config: RunConfig, registry: Registry, *, collects: bool = False) -> None:
    """`--dry-run`: the resolved configuration, the placement and the memory estimate. All checks
    are made; nothing is started.

    Raises:
        UserError: whatever the run itself would be refused for.
    """
    from rlcore.config.checks import announce, check
    from rlcore.placement import Inventory, make_plan, render

    plan = make_plan(config.cluster, Inventory.local(), registry)
    facts = check(config, registry, plan, collects=collects)
    announce(facts)
    print(to_yaml(config))
    print(
        render(
            plan,
            facts.policy or NO_POLICY,
            config.actor.model.precision,
            reference=facts.needs is not None and facts.needs.reference_logprobs,
            rows=facts.rows_per_forward,
        )
    )


def _check(config: RunConfig, registry: Registry, *, collects: bool) -> None:
    from rlcore.config.checks import check

    check(config, registry, collects=collects)


def require_assets(config: RunConfig, registry: Registry) -> None:
    """Ask the plugins of the chosen components what this machine lacks.

    Raises:
        AssetError: something is missing; names it, and the commands that mend it.
    """
    results = registry.doctor(config, chosen_plugins(config, registry))
    missing = [item for item in results if item["status"] == "missing"]
    if missing:
        fixes = dict.fromkeys(item["fix"] for item in missing if item["fix"])
        raise AssetError(
            "this machine lacks "
            + "; ".join(f"{item['name']}: {item['detail']}" for item in missing),
            hint=" && ".join(fixes) or None,
        )


def chosen_plugins(config: RunConfig, registry: Registry) -> set[str]:
    """Entry-point names of the plugins whose components the configuration uses."""
    names = {
        "env.train": config.env.train.env_type,
        "env.eval": config.env.eval.env_type,
        "actor.model": config.actor.model.model_type,
        "algorithm": config.algorithm.name,
    }
    chosen = [(slot.kind, names[slot.section]) for slot in SLOTS if names[slot.section]]
    return {registry.get(kind, name).plugin for kind, name in chosen}
