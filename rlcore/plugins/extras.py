"""Find out which extra of rlcore ships a component, from the installed metadata.

The code of core names no component. The extras of the distribution do, by the names of the
distributions that they require (`rlcore-env-NAME`, `rlcore-model-NAME`, `rlcore-algo-NAME`).
configs/extras.json lists components with other names or of other kinds, as a distribution that is
not installed can't list them itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from rlcore.contracts.component import KINDS
from rlcore.files.core_configs import core_configs
from rlcore.plugins.distributions import folders, normal, requires

DISTRIBUTION = "rlcore"
SCRIPT = Path(__file__).parents[2] / "requirements/install.sh"
"""Install script of a clone of the repository; an installed package comes without it."""
WHEELS = "--find-links dist"
"""Option by which pip finds rlcore's distributions in the folder that `make wheels` writes; empty
once a package index has them. Pages show it too."""
PREFIXES = {"env": "rlcore-env-", "model": "rlcore-model-", "algorithm": "rlcore-algo-"}
_REQUIREMENT = re.compile(r"""^\s*([\w.-]+).*;.*\bextra\s*==\s*['"]([\w.-]+)['"]""")


def extra_that_ships(kind: str, name: str, loaded: Collection[str]) -> str | None:
    """Return the extra to install for component `name` of `kind`, or None if none is known.

    An extra ships a component if it requires a distribution that provides this name, or a name
    that it begins with (`NAME_50` belongs to `NAME`).

    Args:
        loaded: names of the distributions already loaded, which are no longer to be installed.
    """
    # Preferred are, in this order: the longest matching name, the extra called like it, the extra
    # with the fewest distributions, and one that requires a distribution named after the extra.
    ranked = []
    for short, extra in _missing_components(kind, loaded):
        if belongs(name, short):
            required = extras()[extra]
            lacks_own = f"{DISTRIBUTION}-{extra}" not in required
            ranked.append((-len(short), normal(name) != extra, len(required), lacks_own, extra))
    return min(ranked)[-1] if ranked else None


def absent_names(kind: str, loaded: Collection[str]) -> list[str]:
    """Return names of components of `kind` from extras' distributions not in `loaded`, sorted."""
    return sorted({short for short, _ in _missing_components(kind, loaded)})


def is_ours(distribution: str) -> bool:
    """Return whether a distribution is rlcore, or one of the distributions that belong to it.

    These are the distributions that an extra of rlcore requires, and those beginning with `rlcore-`
    that rlcore requires directly or indirectly. The prefix alone does not decide, as third-party
    distributions may have it too.
    """
    name = normal(distribution)
    if name == DISTRIBUTION or any(name in required for required in extras().values()):
        return True
    return name.startswith(f"{DISTRIBUTION}-") and name in _required_by_rlcore()


def lacking(packages: Iterable[str]) -> list[str]:
    """Return those of the distributions `packages` that are not installed."""
    installed = folders()
    return [package for package in packages if normal(package) not in installed]


def install_command(names: Collection[str]) -> str:
    """Return the shell command that installs these extras.

    In a clone this is its install script, as the distributions may not be on a package index. The
    script gets only the envs and models among the extras; without any it installs everything.
    """
    if not SCRIPT.is_file():
        return pip_install(f'"{DISTRIBUTION}[{",".join(sorted(names))}]"')
    script = SCRIPT.relative_to(Path.cwd()) if SCRIPT.is_relative_to(Path.cwd()) else SCRIPT
    words = [f"bash {script}"]
    for kind in ("env", "model"):
        for name in sorted(names):
            if PREFIXES[kind] + name in extras().get(name, ()):
                words.append(f"--{kind} {name}")
    return " ".join(words)


def pip_install(requirements: str) -> str:
    """Return the shell command that installs distributions of rlcore, and what they need, by pip.

    Args:
        requirements: arguments of pip, quoted for the shell, e.g. `"rlcore[tools]"`.
    """
    return " ".join(filter(None, ("pip install", requirements, WHEELS)))


def offered(kind: str, name: str, loaded: Collection[str]) -> str | None:
    """Return the command that installs component `name` of `kind`, or None if none is known."""
    extra = extra_that_ships(kind, name, loaded)
    return extra and install_command([extra])


def installing(packages: Collection[str]) -> str:
    """Return the command that installs third-party packages.

    It installs the smallest extra that requires all of them, if there is one and this is no clone;
    else the packages themselves.
    """
    names = {normal(package) for package in packages}
    fitting = [
        (len(required), extra) for extra, required in extras().items() if names <= {*required}
    ]
    if fitting and not SCRIPT.is_file():
        return install_command([min(fitting)[1]])
    return f"pip install {' '.join(packages)}"


def not_installed(loaded: Collection[str]) -> list[str]:
    """Return extras that have components in a distribution not in `loaded`, sorted."""
    return sorted({extra for kind in KINDS for _, extra in _missing_components(kind, loaded)})


def _missing_components(kind: str, loaded: Collection[str]) -> list[tuple[str, str]]:
    """Return `(name, extra)` of the components of `kind` in distributions not in `loaded`."""
    return [
        (short, extra)
        for extra, distributions in extras().items()
        for distribution in distributions
        if distribution not in loaded
        for short in names_of(distribution, kind)
    ]


def names_of(distribution: str, kind: str) -> list[str]:
    """Return names, or beginnings of names, of the components of `kind` in a distribution.

    `rlcore-env-foo` has the env `foo`; configs/extras.json lists further names.
    """
    name = normal(distribution)
    further = _further_names().get(name, {}).get(kind, [])
    if kind in PREFIXES and name.startswith(PREFIXES[kind]):
        return [short_name(name).replace("-", "_"), *further]
    return further


def belongs(name: str, owner: str) -> bool:
    """Return whether `name` is `owner`, or begins with it and a separator (`foo_50`, `foo`)."""
    name = normal(name)
    owner = normal(owner)
    return name == owner or name.startswith(f"{owner}-")


def short_name(distribution: str) -> str:
    """Remove the prefix of a distribution's name: `rlcore-env-foo` -> `foo`."""
    name = normal(distribution)
    for prefix in PREFIXES.values():
        name = name.removeprefix(prefix)
    return name


@lru_cache(maxsize=1)
def _further_names() -> dict[str, dict[str, list[str]]]:
    return dict(json.loads((core_configs() / "extras.json").read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _required_by_rlcore() -> frozenset[str]:
    """Return rlcore and the `rlcore-*` distributions that it requires, also indirectly."""
    visited: set[str] = set()
    pending = {DISTRIBUTION}
    while pending:
        distribution = pending.pop()
        visited.add(distribution)
        required = {normal(_name_of(requirement)) for requirement in requires(distribution)}
        pending |= {name for name in required if name.startswith(f"{DISTRIBUTION}-")} - visited
    return frozenset(visited)


def _name_of(requirement: str) -> str:
    """Return the name of the distribution in a PEP 508 requirement."""
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]


@lru_cache(maxsize=1)
def extras() -> dict[str, tuple[str, ...]]:
    """Return `{extra: distributions that it requires}` of the installed rlcore."""
    required: dict[str, list[str]] = {}
    for requirement in requires(DISTRIBUTION):
        for name, extra in _REQUIREMENT.findall(requirement):
            required.setdefault(extra, []).append(normal(name))
    return {extra: tuple(names) for extra, names in required.items()}
