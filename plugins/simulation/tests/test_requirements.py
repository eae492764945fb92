"""What an env's simulators need of an interpreter, and what of it is there."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from rlcore_simulation.interpreters import query_interpreter
from rlcore_simulation.requirements import lacking

from rlcore.contracts.specs import ComponentSpec


def test_missing_requirements_of_an_environment(twin_venv: Path) -> None:
    found = query_interpreter(str(twin_venv))
    needs = ("NumPy>=1.24", "no_such_robot", "pyyaml==0.1", "old; python_version < '3.4'")
    asked = ComponentSpec("env", "sliding", "x:y", requirements=needs)
    missing = ("no_such_robot", "not installed")
    assert list(lacking(found, asked)) == [missing, ("pyyaml==0.1", version("pyyaml"))]
