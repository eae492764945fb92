"""Write a new package from the template beside this module. Knows no command line."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from rlcore import __version__
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT, Catalog
from rlcore.contracts.component import Kind
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.version import API_VERSION
from rlcore.plugins.distributions import folders, normal
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
}
BESIDE = ("dist", "logs", "tests")
"""Folders of a project that the template names or ignores."""
_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


@dataclass(frozen=True)
class New:
    """A package to write.

    Attributes:
        kind: of its component, or "hook".
        name: of the component; lower case, with - or _ between words.
        answers: to further questions of the template (`template/copier.yml`).
    """

    kind: str
    name: str
    answers: Mapping[str, str]

    @property
    def of_kind(self) -> str:
        """The kind of the component: of files of configuration, that of the env they make."""
        return "env" if self.kind == "gymnasium" else self.kind

    @property
    def package(self) -> str:
        """The name of its Python package, and of its component."""
        return self.name.replace("-", "_")


def owner_of(new: New) -> str:
    """Say whose the name of a package is already; empty if it is free.

    A package of that name would hide the module of another from every program of the environment,
    or take the place of an installed distribution, or of a component or recipe under its name.
    """
    name = new.package
    if keyword.iskeyword(name) or keyword.iskeyword(name.capitalize()):
        return "a keyword of Python"
    if name in sys.stdlib_module_names:
        return "a module of Python's standard library"
    if name in BESIDE:
        return "a folder beside the package in its project"
    if normal(name) in folders() or is_ours(name):
        return "a distribution, installed here or one of rlcore's"
    found = find_spec(name)
    places = {Path(folder).parent for folder in folders().values()}
    if found is not None and any(Path(found.origin or "").is_relative_to(one) for one in places):
        return f"an installed module, {found.origin}"
    registry, kind = load_plugins(), new.of_kind
    if registry.manager.has_plugin(name):
        return "an installed plugin"
    if kind == "hook":
        return ""
    groups = (kind, EXPERIMENT) if kind in COMPONENT_GROUPS else ()
    for group in groups:
        if name in Catalog(registry).options(group):
            return f"{group} {name!r}, which is there already"
    taken = name in registry.names(cast(Kind, kind))
    return f"{kind} {name!r}, which is there already" if taken else ""


def write(new: New, folder: Path, *, again: bool = False) -> list[Path]:
    """Write the package.

    Args:
        new: what to write.
        folder: where; its parent is there.
        again: over the files of an earlier template that are there.

    Returns:
        Its files.

    Raises:
        ConfigError: the name is not one or is another's, or the folder is there already (not there,
            if `again`).
    """
    if not _NAME.fullmatch(new.name):
        raise ConfigError(
            f"a name is lower-case letters, digits and - or _ between them, got {new.name!r}",
            hint=f"rlcore new {new.kind} my-{new.kind}",
        )
    if not again and (owner := owner_of(new)):
        raise ConfigError(
            f"the name {new.name!r} is taken: it is {owner}",
            hint=f"rlcore new {new.of_kind} my-{new.name}",
        )
    if folder.exists() and not again:
        raise ConfigError(
            f"{folder} is there already",
            hint="give another name, or --again to write the template's files over its own",
        )
    if again and not (folder / ANSWERS).is_file():
        raise ConfigError(f"{folder} has no {ANSWERS}: it was not made by rlcore new")
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
