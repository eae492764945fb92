"""Write a new package from the template in this folder. Knows no command line."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from rlcore import __version__
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT, Catalog
from rlcore.contracts.component import Kind
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.version import API_VERSION
from rlcore.plugins.extras import is_ours
from rlcore.plugins.registry import load_plugins

TEMPLATE = Path(__file__).parent / "template"
ANSWERS = ".copier-answers.yml"
SUMMARIES = {
    "env": "a cart on a rail that should reach the side its sentence names",
    "model": "a Gaussian policy over cameras, state and instruction",
    "algorithm": "returns as they came, against what a critic expected",
    "hook": "ends training once evaluations get no better",
    "tracker": "all numbers of a run in one table",
    "command": "the best value of a metric: RUN METRIC",
    "placement": "envs everywhere, the policy on the last accelerator",
    "replay": "imitates those of its earlier decisions that went better than expected",
}
KINDS = tuple(kind for kind in SUMMARIES if kind != "replay")
"""The kinds that `rlcore new` takes as a word."""
PROJECT_FOLDERS = ("dist", "logs", "tests")
"""Folders of a project that the template names or ignores."""
_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


@dataclass(frozen=True)
class New:
    """A package to write.

    Attributes:
        kind: kind of its component, or "hook"; "gymnasium" for configuration files of that env,
            "replay" for an algorithm that learns from a replay.
        name: name of the component; lower case, with - or _ between words.
        answers: answers to further questions of the template (`template/copier.yml`).
    """

    kind: str
    name: str
    answers: Mapping[str, str]

    @property
    def of_kind(self) -> str:
        """Kind of the component, which several templates may have."""
        return {"gymnasium": "env", "replay": "algorithm"}.get(self.kind, self.kind)

    @property
    def package(self) -> str:
        """Name of the Python package and of its component."""
        return self.name.replace("-", "_")


def owner_of(new: New) -> str:
    """Return what already has the name of a package; empty if the name is free.

    A package with a taken name would hide another module from every program of the environment, or
    replace an installed distribution, or a component or recipe of the same name.
    """
    name = new.package
    if keyword.iskeyword(name) or keyword.iskeyword(name.capitalize()):
        return "a keyword of Python"
    if name in sys.stdlib_module_names:
        return "a module of Python's standard library"
    if name in PROJECT_FOLDERS:
        return "a folder of the package's project"
    if _is_installed(name) or is_ours(name):
        return "a distribution, installed here or one of rlcore's"
    module = find_spec(name)
    libraries = {Path(str(installed.locate_file(""))) for installed in distributions()}
    origin = Path((module and module.origin) or "")
    if module is not None and any(origin.is_relative_to(library) for library in libraries):
        return f"an installed module, {module.origin}"
    registry = load_plugins()
    kind = new.of_kind
    if registry.manager.has_plugin(name):
        return "an installed plugin"
    if kind == "hook":
        return ""
    groups = (kind, EXPERIMENT) if kind in COMPONENT_GROUPS else ()
    for group in groups:
        if name in Catalog(registry).options(group):
            return f"{group} {name!r}, which exists already"
    is_registered = name in registry.names(cast(Kind, kind))
    return f"{kind} {name!r}, which exists already" if is_registered else ""


def _is_installed(name: str) -> bool:
    """Return whether a distribution of this name is installed, in any spelling of PEP 503."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def write(new: New, folder: Path, *, again: bool = False) -> list[Path]:
    """Write the package.

    Args:
        new: the package.
        folder: folder of the package; its parent must exist.
        again: overwrite the files that an earlier version of the template wrote.

    Returns:
        the files of the package, sorted.

    Raises:
        ConfigError: the name is invalid or taken, or the folder exists already; with `again`, the
            folder was not written by this function.
    """
    if not _NAME.fullmatch(new.name):
        raise ConfigError(
            "a name must be lower-case letters and digits, with - or _ between words, got "
            f"{new.name!r}",
            hint=f"rlcore new {new.of_kind} my-{new.of_kind}",
        )
    if not again and (owner := owner_of(new)):
        raise ConfigError(
            f"the name {new.name!r} is taken: it is {owner}",
            hint=f"rlcore new {new.of_kind} my-{new.name}",
        )
    if folder.exists() and not again:
        raise ConfigError(
            f"{folder} exists already",
            hint="give another name, or --again to write the template's files over its own",
        )
    if again and not (folder / ANSWERS).is_file():
        raise ConfigError(f"{folder} has no {ANSWERS}: it was not written by rlcore new")
    from copier import run_copy

    data = {
        "kind": new.kind,
        "name": new.name,
        "summary": SUMMARIES.get(new.kind, ""),
        "api": str(API_VERSION),
        "version": ".".join(__version__.split(".")[:2]),
        **new.answers,
    }
    run_copy(str(TEMPLATE), folder, data=data, defaults=True, overwrite=again, quiet=True)
    return sorted(file for file in folder.rglob("*") if file.is_file())
