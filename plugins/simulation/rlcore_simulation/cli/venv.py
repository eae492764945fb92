"""`rlcore venv create NAME [PATH]`, `rlcore venv ls`: manage environments of envs and models."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rlcore.cli.parser import Parser
from rlcore.config.schema import EnvConfig, ModelConfig
from rlcore.contracts.errors import (
    ConfigError,
    MissingPackageError,
    PluginError,
    UserError,
    choices_message,
)
from rlcore.contracts.specs import ComponentSpec, Kind
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry, load_plugins
from rlcore_simulation.doctor import Row, row
from rlcore_simulation.interpreters import Interpreter, executable_of, query_interpreter, venv_of
from rlcore_simulation.known_interpreters import home, noted
from rlcore_simulation.requirements import lacking, listed, of_note
from rlcore_simulation.settings import interpreter_path
from rlcore_simulation.venvs import make, stamp, usual

VERBS = ("create", "ls")
KINDS: tuple[Kind, ...] = ("env", "model")
"""Kinds of components that may need an environment of their own."""
SECTIONS = {"env": ("env.train", "env.eval"), "model": ("actor.model",)}
DEFAULTS = {"env": EnvConfig, "model": ModelConfig}
"""Settings of a component that has none of its own."""
USES = {"env": ("train",), "model": ("eval", "env=ENV", "actor.model.model_path=FOLDER")}
"""Words of the command that uses an environment."""


def main(arguments: Sequence[str]) -> int:
    """Make an environment, or list those there are; returns the exit code."""
    parser = Parser(
        prog="rlcore venv",
        description="Environments in which simulators and models run that can't share rlcore's. "
        "create: make one with what NAME needs; ls: those that were made or used.",
    )
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="name of an env or a model, as in env=NAME"
    )
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help=f"its folder; default: {usual('NAME')}"
    )
    parser.add_argument(
        "--python", metavar="PYTHON", help="interpreter to make it with, as a path or a name"
    )
    options = parser.parse_args(arguments)
    if options.verb == "ls":
        if options.name is not None:
            parser.error("ls takes no further words")
        return _list(load_plugins())
    if options.name is None:
        parser.error("create needs the name of an env or a model")
    return _create(load_plugins(), options.name, options.path, options.python)


def _create(registry: Registry, name: str, path: str | None, python: str | None) -> int:
    kind, option = _denoted(registry, name)
    spec = registry.get(kind, _component(registry, kind, option)).spec
    folder = usual(spec.name) if path is None else Path(path).expanduser().absolute()
    interpreter = make(spec, folder, python=python)
    print(versions(interpreter, spec))
    config = load_target(spec.config)() if spec.config else DEFAULTS[kind]()
    config.resolve(spec)
    found_by_itself = config.interpreter() == str(folder)
    sections = () if found_by_itself else SECTIONS[kind]
    keys = [f"{interpreter_path(config, section)}={folder}" for section in sections]
    words = [*USES[kind], f"{kind}={option}"]
    print(f"use it: {shlex.join(['rlcore', *words, *keys])}")
    return 0


def _denoted(registry: Registry, name: str) -> tuple[Kind, str]:
    """Return the kind of component that a name denotes, and the name without `KIND=`.

    Raises:
        ConfigError: the name is one of an env and of a model.
        PluginError: it is neither.
    """
    for kind in KINDS:
        if name.startswith(f"{kind}="):
            return kind, name.removeprefix(f"{kind}=")
    found: list[Kind] = [kind for kind in KINDS if name in registry.names(kind)]
    if not found:
        from rlcore.config.catalog import Catalog  # loads Hydra

        catalog = Catalog(registry)
        found = [kind for kind in KINDS if catalog.option(kind, name) is not None]
    if len(found) > 1:
        choices = " or ".join(f"{kind}={name}" for kind in found)
        raise ConfigError(
            f"{name} is an env and a model; choose from: {choices}",
            hint=f"rlcore venv create {found[0]}={name}",
        )
    if found:
        return found[0], name
    names = sorted(
        component.spec.name
        for kind in KINDS
        for component in registry.components(kind)
        if component.spec.requirements
    )
    for kind in KINDS:
        error = registry.not_found(kind, name, names)
        if isinstance(error, MissingPackageError):  # it ships as an extra
            raise error
    raise PluginError(
        f"there is no env or model {name!r}{choices_message(name, names)}", hint="rlcore plugins"
    )


def _component(registry: Registry, kind: Kind, name: str) -> str:
    """Return the component that a name denotes: itself, or that of an option as in env=NAME."""
    if name in registry.names(kind):
        return name
    from rlcore.api import compose  # loads Hydra

    config = compose(f"{kind}={name}", require=(kind,))
    return config.env.train.env_type if kind == "env" else config.actor.model.model_type


def _list(registry: Registry) -> int:
    for path in noted():
        title, lacks, command = described(path, registry)
        print(title)
        if lacks:
            print(f"  {lacks}: {command}")
    if not noted():
        print(f"none yet: rlcore venv create NAME makes one in {home() / 'venvs'}")
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
    made_for = stamp(venv) if venv else {}
    kind: Kind = next((kind for kind in KINDS if kind in made_for), "env")
    name = str(made_for.get(kind, ""))
    folder = f" {shlex.quote(str(venv))}" if venv else ""
    command = f"rlcore venv create {name or 'NAME'}{folder}"
    title = f"{path} for {name}" if name else path
    try:
        interpreter = query_interpreter(path)
    except UserError as error:
        return title, error.message, error.hint or command
    if name not in registry.names(kind):
        return f"{title}: {versions(interpreter)}", "", ""
    spec = registry.get(kind, name).spec
    title = f"{title}: {versions(interpreter, spec)}"
    lacks = listed(lacking(interpreter, spec))
    return (title, f"lacks {', '.join(lacks)}", command) if lacks else (title, "", "")


def versions(interpreter: Interpreter, spec: ComponentSpec | None = None) -> str:
    """Return a line with the versions of Python and of the packages that matter to a component."""
    packages = of_note(interpreter, spec).items()
    python = f"Python {interpreter.version}"
    return ", ".join([python, *(f"{name} {version}" for name, version in packages)])
