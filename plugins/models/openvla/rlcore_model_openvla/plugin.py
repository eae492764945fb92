"""Register this distribution with rlcore. Importing this module loads no tensor library."""

from __future__ import annotations

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import hookimpl

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Register the model of any size."""
    return [
        ComponentSpec(
            kind="model",
            name="openvla",
            target="rlcore_model_openvla.policy:make",
            summary="OpenVLA: actions as tokens, written one after the other",
            config="rlcore_model_openvla.settings:OpenVLAConfig",
            spec="rlcore_model_openvla.spec:policy_spec",
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    """Return where the options of `model=` are: openvla, openvla_tiny."""
    return ["pkg://rlcore_model_openvla.conf"]
