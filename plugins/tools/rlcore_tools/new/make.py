"""Write a new package from the template beside this module. Knows no command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlcore import __version__
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.version import API_VERSION

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
    def package(self) -> str:
        """The name of its Python package, and of its component."""
        return self.name.replace("-", "_")


def write(new: New, folder: Path, *, again: bool = False) -> list[Path]:
    """Write the package.

    Args:
        new: what to write.
        folder: where; its parent is there.
        again: over the files of an earlier template that are there.

    Returns:
        Its files.

    Raises:
        ConfigError: the name is not one, or the folder is there already (not there, if `again`).
    """
    if not _NAME.fullmatch(new.name):
        raise ConfigError(
            f"a name is lower-case letters, digits and - or _ between them, got {new.name!r}",
            hint=f"rlcore new {new.kind} my-{new.kind}",
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
