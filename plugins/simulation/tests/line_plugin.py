"""The tiny simulator as a plugin. A module of its own: where it simulates, there is no pluggy."""

from __future__ import annotations

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import hookimpl

RLCORE_API = (0, 1)
LINE = ComponentSpec(
    kind="env",
    name="line",
    target="line_simulator:make_env",
    config="line_simulator:LineConfig",
    spec="line_simulator:env_spec",
    requirements=("numpy>=1.24",),
)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [LINE]
