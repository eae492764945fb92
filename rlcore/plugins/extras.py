"""Find out which extra of rlcore ships a component, from the installed metadata.

No code of core names one: the extras of the distribution do, through the names of what they require
(`rlcore-env-NAME`, `rlcore-model-NAME`, `rlcore-algo-NAME`), and configs/extras.json for components
with other names, or of another kind: what is not installed can't say so itself.
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
"""What installs in a clone. Beside an installed package there is none."""
PREFIXES = {"env": "rlcore-env-", "model": "rlcore-model-", "algorithm": "rlcore-algo-"}
_REQUIREMENT = re.compile(r"""^\s*([\w.-]+).*;.*\bextra\s*==\s*['"]([\w.-]+)['"]""")


def extra_that_ships(kind: str, name: str, loaded: Collection[str]) -> str | None:
    """The extra to install for `kind` `name`, or None where none is known.

    A name belongs to an extra that requires a distribution of this kind which brings it, or its
    beginning (`NAME_50` belongs to `NAME`). An extra whose distribution is among `loaded` (names
    of those already loaded) is not the answer.
    """
    # the longest name that fits; then the extra of that name, or that brings the least, or whose
    # distribution is called like it
    ranked = [
        (-len(short), normal(name) != extra, len(brought), own not in brought, extra)
        for short, extra in _absent(kind, loaded)
        if belongs(name, short)
        for brought, own in [(extras()[extra], f"{DISTRIBUTION}-{extra}")]
    ]
    return min(ranked)[-1] if ranked else None


def absent_names(kind: str, loaded: Collection[str]) -> list[str]:
    """Names of `kind` that extras bring whose distribution is not among `loaded`."""
    return sorted({short for short, _ in _absent(kind, loaded)})


def is_ours(distribution: str) -> bool:
    """Whether it is rlcore itself, or one that an extra of it requires, or such a one in turn.
    Others may begin with `rlcore` too."""
    own = normal(distribution)
    if own == DISTRIBUTION or any(own in brought for brought in extras().values()):
        return True
    return own.startswith(f"{DISTRIBUTION}-") and own in _distributions_of_rlcore()


def lacking(packages: Iterable[str]) -> list[str]:
    """Those of some distributions that are not installed."""
    known = folders()
    return [package for package in packages if normal(package) not in known]


def install_command(names: Collection[str]) -> str:
    """What installs these extras: in a clone its own script, which brings what no index may have.
    Without an env or a model among them it installs everything."""
    if not SCRIPT.is_file():
        return f'pip install "{DISTRIBUTION}[{",".join(sorted(names))}]"'
    script = SCRIPT.relative_to(Path.cwd()) if SCRIPT.is_relative_to(Path.cwd()) else SCRIPT
    known, words = extras(), [f"bash {script}"]
    for kind in ("env", "model"):
        words += [f"--{kind} {n}" for n in sorted(names) if PREFIXES[kind] + n in known.get(n, ())]
    return " ".join(words)


def offered(kind: str, name: str, loaded: Collection[str]) -> str | None:
    """What installs the extra that ships `kind` `name`, or None where none is known."""
    extra = extra_that_ships(kind, name, loaded)
    return extra and install_command([extra])


def installing(packages: Collection[str]) -> str:
    """The command that installs packages of others: an extra that brings them all, if there is one
    and this is no clone."""
    wanted = {normal(package) for package in packages}
    fitting = [(len(brought), extra) for extra, brought in extras().items() if wanted <= {*brought}]
    if fitting and not SCRIPT.is_file():
        return install_command([min(fitting)[1]])
    return f"pip install {' '.join(packages)}"


def not_installed(loaded: Collection[str]) -> list[str]:
    """Extras that bring components of a distribution which is not among `loaded`."""
    return sorted({extra for kind in KINDS for _, extra in _absent(kind, loaded)})


def _absent(kind: str, loaded: Collection[str]) -> list[tuple[str, str]]:
    """`(name, extra)` of what extras bring."""
    return [
        (short, extra)
        for extra, distributions in extras().items()
        for each in distributions
        if each not in loaded
        for short in names_of(each, kind)
    ]


def names_of(distribution: str, kind: str) -> list[str]:
    """What a distribution's components of a kind are called, or begin with: `rlcore-env-foo` has
    the env `foo`."""
    name = normal(distribution)
    own = [short_name(name).replace("-", "_")] if name.startswith(PREFIXES.get(kind, "\0")) else []
    return own + _further_names().get(name, {}).get(kind, [])


def belongs(name: str, owner: str) -> bool:
    """Whether `name` is `owner` or begins with it: `foo_50` belongs to `foo`."""
    name, owner = normal(name), normal(owner)
    return name == owner or name.startswith(f"{owner}-")


def short_name(distribution: str) -> str:
    """`rlcore-env-foo` -> `foo`; names of other shapes stay."""
    name = normal(distribution)
    for prefix in PREFIXES.values():
        name = name.removeprefix(prefix)
    return name


@lru_cache(maxsize=1)
def _further_names() -> dict[str, dict[str, list[str]]]:
    return dict(json.loads((core_configs() / "extras.json").read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _distributions_of_rlcore() -> frozenset[str]:
    """Distributions beginning with `rlcore-` that rlcore requires, directly or in turn."""
    found, left = set[str](), {DISTRIBUTION}
    while left:
        found.add(name := left.pop())
        required = {normal(line) for line in map(_name_of, requires(name))}
        left |= {one for one in required if one.startswith(f"{DISTRIBUTION}-")} - found
    return frozenset(found)


def _name_of(requirement: str) -> str:
    """Of the distribution that a requirement names."""
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]


@lru_cache(maxsize=1)
def extras() -> dict[str, tuple[str, ...]]:
    """`{extra: distributions it requires}` of the installed rlcore."""
    found: dict[str, list[str]] = {}
    for line in requires(DISTRIBUTION):
        for name, extra in _REQUIREMENT.findall(line):
            found.setdefault(extra, []).append(normal(name))
    return {extra: tuple(names) for extra, names in found.items()}
