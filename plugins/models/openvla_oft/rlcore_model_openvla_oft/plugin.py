"""Register this distribution with rlcore. Importing this module loads no tensor library."""

from __future__ import annotations

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import hookimpl

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Register one model for both forms, chosen by `implement_version`."""
    return [
        ComponentSpec(
            kind="model",
            name="openvla_oft",
            target="rlcore_model_openvla_oft.policy:make",
            summary="OpenVLA-OFT: action chunks as tokens, all written at once",
            config="rlcore_model_openvla_oft.settings:OpenVLAOFTConfig",
            spec="rlcore_model_openvla_oft.spec:policy_spec",
            original="rlcore_prismatic.originals:to_original",
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    """Return where the options of `model=` are: openvla_oft, openvla_oft_tiny."""
    return ["pkg://rlcore_model_openvla_oft.conf"]
