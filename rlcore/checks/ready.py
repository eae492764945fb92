"""Check whether a run can start here: report every obstacle before any worker starts.

configuration --> refusals, facts --> accelerators, memory, disk --+
plugins' doctors, trackers ----------------------------------------+--> findings

`train`, `eval`, `sft` and `collect` raise the findings as one error; `--dry-run` and
`rlcore doctor RECIPE` print them. Checks that depend on a failed one are skipped, the others run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from rlcore.checks import instruction_warnings, places
from rlcore.checks.doctor_rows import Finding, Row, of_row
from rlcore.checks.episodes import unplayable
from rlcore.checks.facts import Facts
from rlcore.checks.plugin_files import doctor_rows
from rlcore.checks.resources import resources
from rlcore.checks.run import announce, lacking_trackers, survey
from rlcore.config.bind import SLOTS
from rlcore.config.catalog import Catalog
from rlcore.config.compose import not_chosen
from rlcore.config.layers import MissingValueError
from rlcore.config.schema import RunConfig
from rlcore.contracts.component import Kind
from rlcore.contracts.errors import (
    AssetError,
    MissingPackageError,
    UserError,
    group_by_hint,
    join_errors,
)
from rlcore.plugins.registry import Registry

MISSING_INPUTS = (AssetError, MissingValueError)
"""Errors about files or values that the user must still supply.

They do not fail a dry run, which may happen on another machine or before the files are there.
"""
Purpose = Literal["updates", "supervised", "demonstrations"]
"""Purpose of a command, whatever its configuration says: updates or an evaluation, only supervised
training, or only collecting demonstrations."""


def find_obstacles(
    config: RunConfig,
    registry: Registry,
    further: Mapping[str, RunConfig] | None = None,
    *,
    errors: Sequence[UserError] = (),
    words: Sequence[str] = (),
    purpose: Purpose = "updates",
    plays_train: bool = False,
    only_look: bool = False,
    whole: bool = True,
) -> tuple[Facts | None, list[Finding]]:
    """Return all findings, in an order that does not depend on their text.

    Args:
        further: configurations that are evaluated in place of `config`, by the name of their side.
        errors: errors already found in the configuration; `config` has defaults in their place.
        words: words of the command line.
        purpose: purpose of the command.
        plays_train: whether `env.train` is played whatever `runner.only_eval` says.
        only_look: whether no worker will start, see :func:`rlcore.placement.find_inventory`.
        whole: whether `config` describes a whole run; if it only chooses some components, only
            the machine is checked.

    Returns:
        The facts of the run, None if errors prevent gathering them; and the findings.
    """
    facts: Facts | None = None
    obstacles = list(errors)
    further = further or {}
    collects = purpose == "demonstrations"
    if config.supervised_only and purpose == "updates":
        purpose = "supervised"
        if config.runner.resume_dir is None:  # only `rlcore sft` begins such a run
            obstacles.append(not_chosen("algorithm", Catalog(registry, config.recipe.config_dirs)))
    if whole:
        facts, surveyed = survey(
            config, registry, further=further, collects=collects, only_look=only_look
        )
        obstacles += surveyed
        if facts is not None and purpose != "supervised":
            obstacles += unplayable(facts)
    rows = [*([] if collects else places.findings(config)), *instruction_warnings.findings(config)]
    if facts is not None and not obstacles and not rows:
        announce(facts, collects=collects, imitates=purpose == "supervised")
    if plays_train:  # for the doctor hooks
        config = replace(config, runner=replace(config.runner, only_eval=False))
        config.freeze()
    if facts is not None and facts.policy is not None and not collects:
        rows += resources(facts, registry, words, updates=purpose == "updates")
    configs = further.values() or [config]
    return facts, [
        *map(_error_finding, [*obstacles, *lacking_trackers(config, registry)]),
        *map(of_row, rows),
        *(
            of_row(row, "" if row["name"].startswith("env.") else "this machine lacks ")
            for row in _plugin_rows(configs, registry, bool(obstacles))
        ),
        *map(of_row, doctor_rows(registry, chosen_components(*configs))),
    ]


def require(findings: Iterable[Finding], but: tuple[type[UserError], ...] = ()) -> None:
    """Raise an error if the findings prevent a run from starting.

    Args:
        but: classes of errors to ignore.

    Raises:
        UserError: one error that lists all obstacles and their fixes.
    """
    errors = [
        finding.error
        for finding in findings
        if finding.error and not isinstance(finding.error, but)
    ]
    if len({(type(error), error.hint) for error in errors}) > 1:
        lines = [f"{len(errors)} things keep this run from starting:"]
        for hint, message in group_by_hint(errors).items():
            lines += [message, f"  fix: {hint}"] if hint else [message]
        raise UserError("\n".join(lines))
    if errors:
        raise join_errors(errors)


def chosen_plugins(config: RunConfig, registry: Registry) -> set[str]:
    """Return entry-point names of the plugins that the configuration uses.

    A plugin without an env, a model or an algorithm is included too, as it serves every run.
    """
    providers = {part.plugin for slot in SLOTS for part in registry.components(slot.kind)}
    others = {name for name, _ in registry.manager.list_name_plugin()} - providers
    return others | {registry.get(kind, name).plugin for kind, name in chosen_components(config)}


def chosen_components(*configs: RunConfig) -> set[tuple[Kind, str]]:
    """Return (kind, name) of the envs, models and algorithms that configurations choose."""
    chosen: set[tuple[Kind, str]] = set()
    for config in configs:
        names = {
            **{f"env.{side}": env.env_type for side, env in config.active_envs.items()},
            "actor.model": config.actor.model.model_type,
            "algorithm": config.algorithm.name,
        }
        chosen |= {(slot.kind, name) for slot in SLOTS if (name := names.get(slot.section))}
    return chosen


def _plugin_rows(configs: Iterable[RunConfig], registry: Registry, refused: bool) -> Iterator[Row]:
    """Yield doctor rows of the chosen plugins; of rows with equal name and fix, only the first."""
    rows: dict[tuple[str, str], Row] = {}
    for config in configs:
        plugins = chosen_plugins(config, registry)
        # a doctor hook may fail because of an error that is already reported
        for row in registry.doctor(config, plugins, failures=not refused):
            rows.setdefault((row["name"], row["fix"] or row["detail"]), row)
    yield from rows.values()


def _error_finding(error: UserError) -> Finding:
    missing = isinstance(error, (*MISSING_INPUTS, MissingPackageError))
    return Finding("missing" if missing else "refused", error.message, error.hint or "", error)
