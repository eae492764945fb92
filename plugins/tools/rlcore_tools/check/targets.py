"""Check that the targets which a component names exist, and can be called as rlcore calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rlcore.checks.plugin_files import configuration_faults
from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.errors import UserError
from rlcore.plugins.import_target import load_target

HOOKSPECS = "rlcore.contracts.hookspecs"
TARGETS: dict[str, tuple[int, tuple[str, ...]]] = {
    "env": (1, ("num_envs", "rank", "world_size", "num_processes")),
    "model": (1, ("env_spec",)),
    "algorithm": (1, ()),
    "placement": (2, ()),
    "backend": (0, ()),
    "tracker": (2, ()),
    "command": (1, ()),
}
"""(number of positional arguments, names of keyword arguments) with which rlcore calls the target
of each kind. :data:`SPECS` has the same for `spec`."""
SPECS: dict[str, tuple[int, tuple[str, ...]]] = {
    "env": (1, ()),
    "model": (2, ()),
    "algorithm": (1, ()),
    "backend": (1, ("only_look",)),
}


@dataclass(frozen=True)
class Finding:
    """A fault that a check found.

    Attributes:
        fault: description of the fault, one sentence.
        contract: place of the documentation that states what is expected.
        fix: suggested change, or a command.
        warning: whether it may be intended.
        cause: equal for faults that one change fixes; empty if `fault` identifies the fault.
        also: names of further checks that found it.
    """

    fault: str
    contract: str
    fix: str
    warning: bool = False
    cause: str = ""
    also: tuple[str, ...] = ()


def component_findings(spec: ComponentSpec) -> Iterator[Finding]:
    """Yield the faults of the targets that a component names. Imports the targets."""
    from rlcore.contracts.specs import ProtocolSpec  # not at the top: listings need no specs

    contract = f"{HOOKSPECS}, {spec.kind}"
    reported: set[str] = set()
    targets = {
        "target": spec.target,
        "config": spec.config,
        "spec": spec.spec,
        "layouts": spec.layouts,
        "original": spec.original,
    }
    for field, target in targets.items():
        if target is None:
            continue
        try:
            loaded = load_target(target)
        except UserError as error:
            fix = error.hint or f"correct {field}= of the ComponentSpec, or what it names"
            first_line = error.message.partition("\n")[0].removeprefix(target)
            if first_line not in reported:  # a module that fails breaks all targets that import it
                yield Finding(f"{field}: {error.message}", contract, fix, cause=first_line)
            reported.add(first_line)
            continue
        protocol = field == "target" and spec.kind == "protocol"
        if protocol and not isinstance(loaded, ProtocolSpec):
            wrong_type = f"target: {target} is a {type(loaded).__name__}, expected a ProtocolSpec"
            yield Finding(wrong_type, contract, "name an object of that class")
        calls = {"target": TARGETS, "spec": SPECS}.get(field, {}).get(spec.kind)
        fault = "" if calls is None else call_fault(loaded, *calls)
        if fault:
            yield Finding(f"{field}: {target} {fault}", contract, f"write it as {contract} has it")


def call_fault(function: Callable[..., Any], values: int, names: tuple[str, ...]) -> str:
    """Return why an object can't be called with these arguments; empty if it can.

    Args:
        values: number of positional arguments.
        names: names of keyword arguments.
    """
    if not callable(function):
        return f"is a {type(function).__name__}, which can't be called"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""  # functions written in C may have no signature
    try:
        signature.bind(*[None] * values, **dict.fromkeys(names))
    except TypeError as error:
        arguments = ", ".join([*["..."] * values, *(f"{name}=..." for name in names)])
        return f"takes {signature}, but is called with ({arguments}): {error}"
    return ""


def configuration_findings(distribution: str, folder: str) -> Iterator[Finding]:
    """Yield the faults of a configuration folder (`pkg://package.conf`): it is missing, or a YAML
    file in it can't be read."""
    for fault in configuration_faults(distribution, folder):
        yield Finding(fault, f"{HOOKSPECS}, rlcore_config_paths", "correct it, and ship the folder")
