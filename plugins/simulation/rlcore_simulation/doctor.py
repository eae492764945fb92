"""Check the interpreters in which simulators run, and report their versions.

:func:`rlcore_simulation.interpreters.look` starts each interpreter once, and caches the result.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from rlcore.config.schema import EnvConfig
from rlcore.contracts.errors import AssetError, UserError
from rlcore.contracts.specs import ComponentSpec, OtherInterpreter, SimulatorVersions
from rlcore_simulation.interpreters import (
    Interpreter,
    executable_of,
    look,
    venv_of,
    without_processes,
)
from rlcore_simulation.requirements import (
    lacking,
    of_note,
    own_interpreter,
    tested_there,
)
from rlcore_simulation.settings import SimulatedEnvConfig

if TYPE_CHECKING:
    from rlcore.plugins.registry import Registry

Row = dict[str, str]


def interpreters_of(envs: Mapping[str, EnvConfig], registry: Registry) -> list[OtherInterpreter]:
    """Return the interpreters, other than rlcore's own, that simulate the sides of a run.

    Args:
        envs: settings by side ("train", "eval", ...).

    Raises:
        AssetError: an interpreter can't be used. The error names what it lacks, and the command
            that installs it.
    """
    used = {side: env for side, env in envs.items() if env.interpreter() is not None}
    return [_usable(side, env, registry) for side, env in used.items()]


def findings(envs: Mapping[str, EnvConfig], registry: Registry) -> Iterator[Row]:
    """Yield rows of `rlcore doctor` on the interpreters of a run, by side.

    An env that could use another interpreter has a row on rlcore's own. Each library whose version
    was not tested has a row.
    """
    for side, env in envs.items():
        python = env.interpreter()
        if python is not None:
            yield from _of_other(side, env, registry)
            if env.num_processes == 0:
                yield row(f"env.{side}.num_processes", without_processes(python), "refused")
        elif env.env_type:
            yield from _of_own(side, registry.get("env", env.env_type).spec)


def installed(registry: Registry) -> Iterator[Row]:
    """Yield rows of `rlcore doctor` without a run.

    They list the libraries that decide the results of each env, if rlcore's own interpreter has
    them.
    """
    shared: dict[str, Row] = {}
    for component in registry.components("env"):
        spec = component.spec
        own = own_interpreter(spec)
        there = _versions_there(own, spec)
        if there:
            yield row(f"{spec.name}: simulator", there)
        shared |= {each["name"]: each for each in _untested(own, spec)}
    yield from shared.values()


def _of_own(side: str, spec: ComponentSpec) -> Iterator[Row]:
    own = own_interpreter(spec)
    if spec.requirements:
        there = ", ".join(filter(None, [_here(), _versions_there(own, spec)]))
        yield row(f"env.{side}.python", f"rlcore's own interpreter: {there}")
    yield from _untested(own, spec)


def _versions_there(interpreter: Interpreter, spec: ComponentSpec) -> str:
    found = tested_there(interpreter.packages, spec)
    return ", ".join(f"{library.distribution} {version}" for library, version, _ in found)


def _untested(interpreter: Interpreter, spec: ComponentSpec) -> Iterator[Row]:
    """Yield a row for each library of an env whose version in an interpreter was not tested.

    The status is "missing", which refuses a run, if that version is known to change results, else
    "warning". Sides and envs that share a library have equal rows.
    """
    for library, version, tested in tested_there(interpreter.packages, spec):
        if not tested:
            status = "missing" if library.reason else "warning"
            pip = shlex.join([interpreter.executable, "-m", "pip", "install", library.requirement])
            yield row(library.requirement, _not_tested(library, version), status, pip)


def _not_tested(library: SimulatorVersions, version: str) -> str:
    known = library.reason or "it was not tested, so that results may be others"
    return f"{library.distribution} {version} is installed; {known}"


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
                "simulator that hangs ends the run instead of being started anew"
            )
            fix = f"cluster.timeouts.env={1.5 * env.simulator_timeout:g}"
            yield row(f"env.{side}.simulator_timeout", detail, "warning", fix)


def _of_other(side: str, env: EnvConfig, registry: Registry) -> Iterator[Row]:
    key = f"env.{side}.python"
    try:
        one = _usable(side, env, registry)
    except AssetError as error:
        said = error.message.removeprefix(f"{key}: ")
        yield row(key, said, "missing", error.hint or "")
        return
    there = ", ".join(f"{name} {its}" for name, its in one.of_note.items())
    yield row(key, f"{one.executable}: {there}; here: {_here()}")
    interpreter = Interpreter(one.executable, one.of_note["python"], one.packages)
    for each in _untested(interpreter, registry.get("env", env.env_type).spec):
        yield {**each, "name": key, "detail": f"{each['detail']} (tested: {each['name']})"}


def row(name: str, detail: str, status: str = "ok", fix: str = "") -> Row:
    """Make a row of `rlcore doctor`."""
    return {"name": name, "status": status, "detail": detail, "fix": fix}


def missing(name: str, error: UserError) -> Row:
    """Make a row of `rlcore doctor` with the status "missing" from an error."""
    return row(name, error.message, "missing", error.hint or "")


def _here() -> str:
    return f"python {platform.python_version()}, numpy {metadata.version('numpy')}"


def _usable(side: str, env: EnvConfig, registry: Registry) -> OtherInterpreter:
    """Return the interpreter of a side.

    Raises:
        AssetError: it can't be used, or lacks what the env's simulators need.
    """
    key, python = f"env.{side}.python", str(env.interpreter())
    component = registry.get("env", env.env_type)
    spec = component.spec
    try:
        seen = look(python)
    except AssetError as error:
        # An error with a hint says that a package is missing. The command for the environment is a
        # better hint, because the env needs more than that package.
        own = error.hint and _mending(spec, executable_of(python))
        hint = own or _making(spec) or error.hint
        raise AssetError(f"{key}: {error.message}", hint=hint) from None
    _require(key, seen, spec)
    # the plugin's code is copied from this environment, so its version here is the one that counts
    noted = {**of_note(seen, spec), component.distribution: component.version}
    return OtherInterpreter(side, seen.executable, seen.packages, {"python": seen.version, **noted})


def _require(key: str, interpreter: Interpreter, spec: ComponentSpec) -> None:
    absent = list(lacking(interpreter, spec))
    if not absent:
        return
    listed = ", ".join(f"{wanted} (there: {found})" for wanted, found in absent)
    names = [wanted for wanted, _ in absent if not wanted.startswith("Python ")]
    if len(names) < len(absent):  # installing packages can't change the version of Python
        hint = _making(spec)
    else:
        pip = shlex.join([interpreter.executable, "-m", "pip", "install", *names])
        hint = _mending(spec, interpreter.executable) or pip
    known = "".join(
        f"; {library.distribution} {version}: {library.reason}"
        for library, version, tested in tested_there(interpreter.packages, spec)
        if not tested and library.reason
    )
    raise AssetError(
        f"{key}: {interpreter.executable} lacks what the simulators of {spec.name} need: {listed}"
        f"{known}",
        hint=hint,
    )


def _mending(spec: ComponentSpec, executable: str) -> str | None:
    """Return the command that completes the virtual environment of an interpreter.

    It is None if the interpreter has no virtual environment, or the env has no requirements.
    """
    venv, command = venv_of(executable), _making(spec)
    return f"{command} {shlex.quote(str(venv))}" if command and venv else None


def _making(spec: ComponentSpec) -> str | None:
    """Return the command that makes an environment for an env's simulators.

    It is None if the env has no requirements.
    """
    return f"rlcore venv create {spec.name}" if spec.requirements else None
