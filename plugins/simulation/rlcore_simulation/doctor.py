"""Check the interpreters in which simulators and models run, and report their versions.

:func:`rlcore_simulation.interpreters.query_interpreter` starts each interpreter once, and caches
the result.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from rlcore.config.schema import EnvConfig, ModelConfig
from rlcore.contracts.errors import AssetError, UserError
from rlcore.contracts.specs import ComponentSpec, Kind, OtherInterpreter
from rlcore_simulation.interpreters import (
    Interpreter,
    query_interpreter,
    venv_of,
    without_processes,
)
from rlcore_simulation.requirements import lacking, listed, of_note, own_interpreter, tested_there
from rlcore_simulation.settings import SimulatedEnvConfig, interpreter_path

if TYPE_CHECKING:
    from rlcore.plugins.registry import Registry

Row = dict[str, str]
MODEL = "model"
"""Side of a model's interpreter."""
NEEDS = {"env": "the simulators of {} need", "model": "model {} needs"}
"""Who needs the packages, by kind of component, for error messages."""


def row(name: str, detail: str, status: str = "ok", fix: str = "") -> Row:
    """Make a row of `rlcore doctor`."""
    return {"name": name, "status": status, "detail": detail, "fix": fix}


def missing(name: str, error: UserError) -> Row:
    """Make a row of `rlcore doctor` with the status "missing" from an error."""
    return row(name, error.message, "missing", error.hint or "")


@dataclass(frozen=True)
class Use:
    """A component of a run, and the interpreter in which it runs.

    Attributes:
        side: side of the env, or :data:`MODEL`.
        kind, name: the component.
        key: dotted key of the interpreter.
        python: interpreter, or folder of its environment; None: rlcore's own.
    """

    side: str
    kind: Kind
    name: str
    key: str
    python: str | None


def uses(envs: Mapping[str, EnvConfig], model: ModelConfig | None) -> list[Use]:
    """Return the components of a run that may need another interpreter.

    Args:
        envs: settings by side ("train", "eval", ...).
        model: settings of the model; None: there is none.
    """
    found = [
        Use(side, "env", env.env_type, interpreter_path(env, f"env.{side}"), env.interpreter())
        for side, env in envs.items()
    ]
    if model is not None:
        key = interpreter_path(model, "actor.model")
        found.append(Use(MODEL, "model", model.model_type, key, model.interpreter()))
    return found


def interpreters_of(
    envs: Mapping[str, EnvConfig], registry: Registry, model: ModelConfig | None = None
) -> list[OtherInterpreter]:
    """Return the interpreters, other than rlcore's own, in which components of a run compute.

    Args:
        envs: settings by side ("train", "eval", ...).
        model: settings of the model; None: there is none.

    Raises:
        AssetError: an interpreter can't be used, or lacks what the component needs. The error names
            what it lacks, and the command that installs it.
    """
    return [_usable(use, registry) for use in uses(envs, model) if use.python is not None]


def findings(
    envs: Mapping[str, EnvConfig], registry: Registry, model: ModelConfig | None = None
) -> Iterator[Row]:
    """Yield rows of `rlcore doctor` on the interpreters of a run, by side.

    An env that could use another interpreter has a row on rlcore's own. Each library whose version
    was not tested has a row.
    """
    for use in uses(envs, model):
        if use.python is not None:
            yield from _of_other(use, registry)
            if use.kind == "env" and envs[use.side].num_processes == 0:
                refusal = without_processes(use.python)
                yield row(f"env.{use.side}.num_processes", refusal, "refused")
        elif use.kind == "env" and use.name:
            spec = registry.get("env", use.name).spec
            own = own_interpreter(spec)
            if spec.requirements:
                versions = ", ".join(filter(None, [_here(), _simulator_versions(own, spec)]))
                yield row(use.key, f"rlcore's own interpreter: {versions}")
            yield from _untested(own, spec)


def installed(registry: Registry) -> Iterator[Row]:
    """Yield rows of `rlcore doctor` without a run.

    They list the libraries that decide the results of each env, if rlcore's own interpreter has
    them.
    """
    shared: dict[str, Row] = {}
    for component in registry.components("env"):
        spec = component.spec
        own = own_interpreter(spec)
        versions = _simulator_versions(own, spec)
        if versions:
            yield row(f"{spec.name}: simulator", versions)
        shared |= {finding["name"]: finding for finding in _untested(own, spec)}
    yield from shared.values()


def timeouts(envs: Mapping[str, EnvConfig], longest: float) -> Iterator[Row]:
    """Yield a row for each side whose `simulator_timeout` is not less than `cluster.timeouts.env`.

    A simulator of such a side that hangs is not detected before the run ends with an error.

    Args:
        longest: `cluster.timeouts.env`, in seconds.
    """
    for side, env in envs.items():
        if isinstance(env, SimulatedEnvConfig) and env.simulator_timeout >= longest:
            detail = (
                f"{env.simulator_timeout:g} s, not less than cluster.timeouts.env={longest:g}: a "
                "simulator that hangs ends the run instead of being restarted"
            )
            fix = f"cluster.timeouts.env={1.5 * env.simulator_timeout:g}"
            yield row(f"env.{side}.simulator_timeout", detail, "warning", fix)


def _of_other(use: Use, registry: Registry) -> Iterator[Row]:
    key = use.key
    try:
        used = _usable(use, registry)
    except AssetError as error:
        yield row(key, error.message.removeprefix(f"{key}: "), "missing", error.hint or "")
        return
    versions = ", ".join(f"{name} {version}" for name, version in used.of_note.items())
    yield row(key, f"{used.executable}: {versions}; here: {_here()}")
    interpreter = Interpreter(used.executable, used.of_note["python"], used.packages)
    for finding in _untested(interpreter, registry.get(use.kind, use.name).spec):
        yield {**finding, "name": key, "detail": f"{finding['detail']} (tested: {finding['name']})"}


def _usable(use: Use, registry: Registry) -> OtherInterpreter:
    """Return the interpreter of a component.

    Raises:
        AssetError: it can't be used, or lacks what the component needs.
    """
    key = use.key
    python = str(use.python)
    component = registry.get(use.kind, use.name)
    spec = component.spec
    command = f"rlcore venv create {spec.name}" if spec.requirements else None
    try:
        interpreter = query_interpreter(python)
    except AssetError as error:
        raise AssetError(f"{key}: {error.message}", hint=command or error.hint) from None
    absent = dict(lacking(interpreter, spec))
    if absent:
        executable = interpreter.executable
        venv = venv_of(executable)
        if command is None:
            command = shlex.join([executable, "-m", "pip", "install", *absent])
        elif venv is not None and not any(name.startswith("Python ") for name in absent):
            command = f"{command} {shlex.quote(str(venv))}"
        reasons = "".join(
            f"; {library.distribution} {version}: {library.reason}"
            for library, version, tested in tested_there(interpreter.packages, spec)
            if not tested and library.reason
        )
        raise AssetError(
            f"{key}: {executable} lacks what {NEEDS[use.kind].format(spec.name)}: "
            f"{', '.join(listed(absent.items()))}{reasons}",
            hint=command,
        )
    # the plugin's code is that of this environment, so its version here is the one that counts
    noted = {**of_note(interpreter, spec), component.distribution: component.version}
    return OtherInterpreter(
        use.side,
        interpreter.executable,
        interpreter.packages,
        {"python": interpreter.version, **noted},
        key,
    )


def _untested(interpreter: Interpreter, spec: ComponentSpec) -> Iterator[Row]:
    """Yield a row for each library of an env whose version in an interpreter was not tested.

    The status is "missing", which refuses a run, if that version is known to change results, else
    "warning". Sides and envs that share a library have equal rows.
    """
    for library, version, tested in tested_there(interpreter.packages, spec):
        if not tested:
            status = "missing" if library.reason else "warning"
            effect = library.reason or "it was not tested, so that results may be others"
            detail = f"{library.distribution} {version} is installed; {effect}"
            pip = shlex.join([interpreter.executable, "-m", "pip", "install", library.requirement])
            yield row(library.requirement, detail, status, pip)


def _simulator_versions(interpreter: Interpreter, spec: ComponentSpec) -> str:
    libraries = tested_there(interpreter.packages, spec)
    return ", ".join(f"{library.distribution} {version}" for library, version, _ in libraries)


def _here() -> str:
    return f"python {platform.python_version()}, numpy {metadata.version('numpy')}"
