"""Check whether a run can start here: report every obstacle before any worker starts.

configuration --> what is refused, facts --> accelerators, memory, disk --+
plugins' doctors, trackers ----------------------------------------------+--> findings

`train`, `eval`, `sft` and `collect` raise the findings as one error; `--dry-run` and
`rlcore doctor RECIPE` print them. Checks that depend on a failed one are skipped, the others run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from rlcore.checks import instruction_warnings, places
from rlcore.checks.doctor_rows import Finding, Row, of_row
from rlcore.checks.facts import Facts
from rlcore.checks.run import announce, lacking_trackers, survey
from rlcore.config.bind import SLOTS
from rlcore.config.compose import MissingValueError
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import (
    AssetError,
    PackageMissing,
    UserError,
    by_hint,
    joined,
)
from rlcore.plugins.registry import Registry, load_component

OF_THE_USER = (AssetError, MissingValueError)
"""Errors that say what is still to be supplied. A dry run, which may be made elsewhere or earlier,
does not end by them."""
Makes = Literal["updates", "supervised", "demonstrations"]
"""What a command is for, whatever its configuration says: updates or an evaluation, supervised
training alone, or demonstrations alone."""


def look(
    config: RunConfig,
    registry: Registry,
    further: Mapping[str, RunConfig] | None = None,
    *,
    wrong: Sequence[UserError] = (),
    given: Sequence[str] = (),
    makes: Makes = "updates",
    trains: bool = False,
    only_look: bool = False,
    whole: bool = True,
) -> tuple[Facts | None, list[Finding]]:
    """Return all findings, in an order that does not depend on their text.

    Args:
        further: configurations that are evaluated in place of `config`, by the name of their side.
        wrong: what is known to be wrong with the configuration, of which `config` is the rest.
        given: words of the command line.
        makes: what the command is for.
        trains: whether `env.train` is played whatever the configuration says.
        only_look: nothing is going to be started, see :func:`rlcore.placement.find_inventory`.
        whole: whether it is that of a run; of some components alone only the machine is judged.

    Returns:
        What the checks know of the run, None where that is not enough; and the findings.
    """
    facts, errors, further = None, list(wrong), further or {}
    collects = makes == "demonstrations"
    if whole:
        facts, more = survey(
            config, registry, further=further, collects=collects, only_look=only_look
        )
        errors += more
    rows = [*([] if collects else places.findings(config)), *instruction_warnings.findings(config)]
    if facts is not None and not errors and not rows:
        announce(facts, collects=collects)
    if trains:  # for who looks at the machine
        config = replace(config, runner=replace(config.runner, only_eval=False))
        config.freeze()
    judged = "resources" in registry.names("function")  # else nobody looks at the machine
    if judged and facts is not None and facts.policy is not None and not collects:
        find = load_component("function", "resources")
        rows += find(facts, given, updates=makes == "updates")
    return facts, [
        *map(_of_error, [*errors, *lacking_trackers(config, registry)]),
        *map(of_row, rows),
        *(
            of_row(one, "" if one["name"].startswith("env.") else "this machine lacks ")
            for one in _of_plugins(further.values() or [config], registry, bool(errors))
        ),
    ]


def require(findings: Iterable[Finding], but: tuple[type[UserError], ...] = ()) -> None:
    """Raise an error if a run can't start.

    Args:
        but: kinds of errors that may stay.

    Raises:
        UserError: one that lists all that is in its way.
    """
    errors = [one.error for one in findings if one.error and not isinstance(one.error, but)]
    if len({(type(each), each.hint) for each in errors}) > 1:
        said = [f"{len(errors)} things keep this run from starting:"]
        for hint, message in by_hint(errors).items():
            said += [message, f"  fix: {hint}"] if hint else [message]
        raise UserError("\n".join(said))
    if errors:
        raise joined(errors)


def chosen_plugins(config: RunConfig, registry: Registry) -> set[str]:
    """Entry-point names of the plugins whose components the configuration uses, and of those that
    bring none, which are for every run."""
    names = {
        **{f"env.{side}": env.env_type for side, env in config.played.items()},
        "actor.model": config.actor.model.model_type,
        "algorithm": config.algorithm.name,
    }
    chosen = [(slot.kind, name) for slot in SLOTS if (name := names.get(slot.section))]
    bring = {one.plugin for slot in SLOTS for one in registry.components(slot.kind)}
    others = {name for name, _ in registry.manager.list_name_plugin()} - bring
    return others | {registry.get(kind, name).plugin for kind, name in chosen}


def _of_plugins(configs: Iterable[RunConfig], registry: Registry, refused: bool) -> Iterator[Row]:
    """What plugins find, each row once; of what one command mends, the first."""
    found: dict[tuple[str, str], Row] = {}
    for each in configs:
        asked = chosen_plugins(each, registry)
        # one may fail by what is refused already
        for one in registry.doctor(each, asked, failures=not refused):
            found.setdefault((one["name"], one["fix"] or one["detail"]), one)
    yield from found.values()


def _of_error(error: UserError) -> Finding:
    missing = isinstance(error, (*OF_THE_USER, PackageMissing))
    return Finding("missing" if missing else "refused", error.message, error.hint or "", error)
