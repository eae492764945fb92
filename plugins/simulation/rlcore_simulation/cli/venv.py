"""`rlcore venv create ENV [PATH]`, `rlcore venv ls`: manage environments for simulators."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rlcore.cli.parser import Parser
from rlcore.config.schema import EnvConfig
from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import ComponentSpec
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry, load_plugins
from rlcore_simulation.doctor import Row, row
from rlcore_simulation.interpreters import Interpreter, executable_of, query_interpreter, venv_of
from rlcore_simulation.known_interpreters import home, noted
from rlcore_simulation.requirements import lacking, listed, of_note
from rlcore_simulation.venvs import make, stamp, usual

VERBS = ("create", "ls")


def main(arguments: Sequence[str]) -> int:
    """Make an environment, or list those there are; returns the exit code."""
    parser = Parser(
        prog="rlcore venv",
        description="Environments in which simulators run that can't share rlcore's. create: make "
        "one with what the simulators of ENV need; ls: those that were made or used.",
    )
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("env", metavar="ENV", nargs="?", help="name of an env, as in env=ENV")
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help=f"its folder; default: {usual('ENV')}"
    )
    parser.add_argument(
        "--python", metavar="PYTHON", help="interpreter to make it with, as a path or a name"
    )
    options = parser.parse_args(arguments)
    if options.verb == "ls":
        if options.env is not None:
            parser.error("ls takes no further words")
        return _list(load_plugins())
    if options.env is None:
        parser.error("create needs the name of an env")
    return _create(load_plugins(), options.env, options.path, options.python)


def _create(registry: Registry, name: str, path: str | None, python: str | None) -> int:
    spec = registry.get("env", _component(registry, name)).spec
    folder = usual(spec.name) if path is None else Path(path).expanduser().absolute()
    interpreter = make(spec, folder, python=python)
    print(versions(interpreter, spec))
    config = load_target(spec.config)() if spec.config else EnvConfig()
    config.resolve(spec)
    found_by_itself = config.interpreter() == str(folder)
    keys = [] if found_by_itself else [f"env.{side}.python={folder}" for side in ("train", "eval")]
    print(f"use it: {shlex.join(['rlcore', 'train', f'env={name}', *keys])}")
    return 0


def _component(registry: Registry, name: str) -> str:
    """Return the env that a name denotes: an env's name, or that of an option as in env=NAME."""
    if name in registry.names("env"):
        return name
    from rlcore.api import compose  # loads Hydra
    from rlcore.config.catalog import Catalog

    if Catalog(registry).option("env", name) is None:
        return name
    return compose(f"env={name}", require=("env",)).env.train.env_type


def _list(registry: Registry) -> int:
    for path in noted():
        title, lacks, command = described(path, registry)
        print(title)
        if lacks:
            print(f"  {lacks}: {command}")
    if not noted():
        print(f"none yet: rlcore venv create ENV makes one in {home() / 'venvs'}")
    return 0


def findings() -> list[Row]:
    """Return rows of `rlcore doctor` on the recorded environments and interpreters.

    A missing package is a warning only, because a run may not need that environment.
    """
    rows = []
    for path in noted():
        title, lacks, command = described(path, load_plugins())
        # `rlcore venv ls` lists the packages of those that lack none
        detail = f"{title}; {lacks}" if lacks else title.partition(", ")[0]
        rows.append(row("environment", detail, "warning" if lacks else "ok", command))
    return rows


def described(path: str, registry: Registry) -> tuple[str, str, str]:
    """Describe an environment or an interpreter.

    Returns:
        (its path, env and versions; what it lacks, or why it can't be used; the command that
        completes it). The last two are empty if it lacks nothing.
    """
    venv = venv_of(executable_of(path))
    name = str(stamp(venv).get("env", "")) if venv else ""
    folder = f" {shlex.quote(str(venv))}" if venv else ""
    command = f"rlcore venv create {name or 'ENV'}{folder}"
    title = f"{path} for {name}" if name else path
    try:
        interpreter = query_interpreter(path)
    except UserError as error:
        return title, error.message, error.hint or command
    if name not in registry.names("env"):
        return f"{title}: {versions(interpreter)}", "", ""
    spec = registry.get("env", name).spec
    title = f"{title}: {versions(interpreter, spec)}"
    lacks = listed(lacking(interpreter, spec))
    return (title, f"lacks {', '.join(lacks)}", command) if lacks else (title, "", "")


def versions(interpreter: Interpreter, spec: ComponentSpec | None = None) -> str:
    """Return a line with the versions of Python and of the packages that matter to an env."""
    packages = of_note(interpreter, spec).items()
    python = f"Python {interpreter.version}"
    return ", ".join([python, *(f"{name} {version}" for name, version in packages)])
