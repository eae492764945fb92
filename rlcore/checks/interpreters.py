"""Whether the interpreters can be used in which a run's simulators are to run, where these are not
rlcore's own (`env.train.python`). Each is started once, to tell its versions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from rlcore.config.schema import EnvConfig
from rlcore.errors import AssetError
from rlcore.interpreters import Interpreter, look
from rlcore.plugins import Registry
from rlcore.specs import ComponentSpec
from rlcore.venvs import CONFIG, lacking


def interpreters_of(envs: Mapping[str, EnvConfig], registry: Registry) -> dict[str, Interpreter]:
    """The interpreters of other environments than rlcore's, by side of the run.

    Args:
        envs: settings by side ("train", "eval", ...).

    Raises:
        AssetError: one of them can't be used; names what it lacks, and the command that mends it.
    """
    found = {}
    for side, env in envs.items():
        python = env.interpreter()
        if python is not None:
            key, spec = f"env.{side}.python", registry.get("env", env.env_type).spec
            try:
                found[side] = look(python)
            except AssetError as error:
                hint = _making(spec) or error.hint
                raise AssetError(f"{key}: {error.message}", hint=hint) from None
            _require(key, found[side], spec)
    return found


def _require(key: str, interpreter: Interpreter, spec: ComponentSpec) -> None:
    absent = list(lacking(interpreter, spec))
    if not absent:
        return
    listed = ", ".join(f"{wanted} (there: {found})" for wanted, found in absent)
    venv = Path(interpreter.executable).parent.parent
    names = [wanted for wanted, _ in absent if not wanted.startswith("Python ")]
    if len(names) < len(absent):  # no package mends the Python of an environment
        hint = _making(spec)
    elif (venv / CONFIG).is_file():
        hint = f"{_making(spec)} {shlex.quote(str(venv))}"
    else:
        hint = shlex.join([interpreter.executable, "-m", "pip", "install", *names])
    raise AssetError(
        f"{key}: {interpreter.executable} lacks what the simulators of {spec.name} need: {listed}",
        hint=hint,
    )


def _making(spec: ComponentSpec) -> str | None:
    """The command that makes an environment for the simulators of an env."""
    return f"rlcore venv create {spec.name}" if spec.requirements else None
