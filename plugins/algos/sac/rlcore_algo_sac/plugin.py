"""Register this distribution with rlcore. Importing this module loads no tensor library."""

from __future__ import annotations

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import hookimpl

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Register soft actor-critic."""
    return [
        ComponentSpec(
            kind="algorithm",
            name="sac",
            target="rlcore_algo_sac.sac:SAC",
            summary="soft actor-critic from a replay, half of each batch demonstrations (RLPD)",
            config="rlcore_algo_sac.settings:SACConfig",
            spec="rlcore_algo_sac.settings:needs",
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    """Return where `algorithm=sac` is."""
    return ["pkg://rlcore_algo_sac.conf"]
