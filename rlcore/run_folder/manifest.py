"""Record the versions and machines of a run, so that it can be repeated. Imports nothing that it
describes.
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
from packaging.requirements import Requirement

from rlcore.contracts.specs import ComponentSpec, EnvSpec, OtherInterpreter
from rlcore.files import cpuinfo
from rlcore.files.atomic import write_text
from rlcore.files.reading import Unreadable, read_json
from rlcore.plugins.distributions import folders, headers, normal, requires
from rlcore.plugins.entry_points import installed
from rlcore.run_folder.protocol_record import EvaluationProtocol

ALWAYS_NAMED = ("rlcore", "torch", "numpy")
GIT_SECONDS = 10.0


def versions(
    interpreters: Iterable[OtherInterpreter] = (),
    specs: Mapping[str, EnvSpec] | None = None,
) -> dict[str, str]:
    """Versions of rlcore, torch, numpy, each installed plugin and what it asks for by name.

    The simulator is among a plugin's requirements, so core needs no list of simulators.

    Args:
        interpreters: other ones, in which simulators run. What matters of them is named
            `NAME (env.SIDE.python)`.
        specs: of the envs by side; what they tell is named `NAME (env.SIDE)`.
    """
    names = set(ALWAYS_NAMED)
    for plugin in {plugin.distribution for plugin in installed({})}:
        names.add(plugin)
        for text in requires(plugin):
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                names.add(requirement.name)
    known = {normal(name): version for name, version in _packages().items()}
    found = {name: known.get(normal(name)) for name in sorted(names)}
    there = {
        f"{name} (env.{one.side}.python)": version
        for one in interpreters
        for name, version in one.of_note.items()
    } | {
        f"{name} (env.{side})": version
        for side, spec in (specs or {}).items()
        for name, version in spec.versions.items()
    }
    return {name: version for name, version in found.items() if version is not None} | there


def simulator_versions(
    component: ComponentSpec, spec: EnvSpec, packages: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Versions of the libraries that decide an env's results, as an evaluation's protocol has them:
    those that its component names, as far as they are installed, and those that its spec tells.

    Args:
        packages: versions of what is installed where it simulates, by name; None: in rlcore's own
            interpreter.
    """
    there = _packages() if packages is None else packages
    known = {normal(name): version for name, version in there.items()}
    names = [library.distribution for library in component.tested]
    found = {name: known[normal(name)] for name in names if normal(name) in known}
    return {**found, **spec.versions}


def code(
    interpreters: Iterable[OtherInterpreter] = (),
    specs: Mapping[str, EnvSpec] | None = None,
) -> dict[str, Any]:
    """Which code runs: :func:`versions`, and the commit of the checkout it runs from, if any."""
    checkout = Path(__file__).parents[2]
    return {"versions": versions(interpreters, specs), "git": git_state(checkout)}


def build_manifest(
    *,
    seeds: Mapping[str, int],
    device: str,
    protocol: EvaluationProtocol | None,
    specs: Mapping[str, EnvSpec],
    code: Mapping[str, Any],
    caveats: Mapping[str, str] | None = None,
    evaluated_on: str = "starts",
    went_on_from: str | None = None,
    interpreters: Iterable[OtherInterpreter] = (),
) -> dict[str, Any]:
    """Everything in `manifest.json`.

    Args:
        seeds: `{what: root seed}`.
        device: where the policy runs, in words, e.g. "cpu" or "cuda".
        protocol: of the evaluations; None where the run has none.
        specs: of the envs by side of the run, "eval" among them.
        code: see :func:`code`.
        caveats: :attr:`rlcore.contracts.specs.EnvSpec.caveat` by side, of those that have one.
        evaluated_on: what starts evaluations visit, in words.
        went_on_from: the checkpoint of an earlier attempt, by name; None for a beginning.
        interpreters: those of other environments in which simulators run.
    """
    processor = cpuinfo.processor().get("model name") or platform.processor() or platform.machine()
    return {
        # tells attempts apart, also two that begin within one second
        "started": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
        "command": shlex.join(sys.argv),
        "went_on_from": went_on_from,
        "seeds": dict(seeds),
        "device": device,
        **code,
        "packages": _packages(),
        "python": platform.python_version(),
        "interpreters": {one.side: asdict(one) for one in interpreters},
        "platform": platform.platform(),
        "cpu": {"model": processor, "logical_cores": psutil.cpu_count()},
        "memory_bytes": psutil.virtual_memory().total,
        "evaluation_protocol": None if protocol is None else protocol.values,
        "render_settings": {side: dict(one.render_settings) for side, one in specs.items()},
        "max_episode_steps": {side: one.max_episode_steps for side, one in specs.items()},
        "evaluated_on": evaluated_on,
        "caveats": dict(caveats or {}),
        "sentences": {
            side: dict(zip(one.tasks, one.descriptions, strict=True)) for side, one in specs.items()
        },
        "task_groups": {name: list(tasks) for name, tasks in specs["eval"].task_groups.items()},
    }


def earlier_versions(path: Path) -> dict[str, str]:
    """Python's version and :func:`versions` of an earlier manifest; empty if it is not there, or
    does not say. What would do something to a terminal is left out."""
    try:
        kept = read_json(path)
        found = {"python": kept["python"], **kept["versions"]}
    except (OSError, Unreadable, KeyError, TypeError):
        return {}
    return {
        name: version
        for name, version in found.items()
        if isinstance(version, str) and name.isprintable() and version.isprintable()
    }


def changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Which versions are others than they were, in words: `numpy 1.26.4 -> 2.4.6`."""
    return [
        f"{name} {then.get(name, 'none')} -> {now.get(name, 'none')}"
        for name in {**now, **then}
        if then.get(name) != now.get(name)
    ]


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """`manifest.json`, for people and programs."""
    return json.dumps(manifest, indent=2) + "\n"


def write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write it atomically."""
    write_text(path, manifest_text(manifest))


def git_state(checkout: Path) -> dict[str, str | bool] | None:
    """`{"commit", "dirty"}` of a checkout; None if `checkout` is not one, or git is missing.

    Only a repository whose root is `checkout` counts: an rlcore installed in a virtualenv
    inside somebody's repository is not at that repository's commit.
    """
    if not (checkout / ".git").exists():
        return None
    commit = _git(checkout, "rev-parse", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "dirty": changes != ""}


def _git(checkout: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *arguments],
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _packages() -> dict[str, str]:
    """Everything installed, sorted. Leftovers of broken installations have no name."""
    known = [dict(headers(place)) for place in folders().values()]
    named = [(each["Name"], each["Version"]) for each in known if "Name" in each]
    return dict(sorted(named, key=lambda pair: pair[0].lower()))
