"""List the components of this plugin. Targets are strings, so listing imports no gymnasium."""

from __future__ import annotations

from rlcore_simulation.versions import GYMNASIUM

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            kind="env",
            name="gymnasium",
            target="rlcore_env_gymnasium.env:make_env",
            summary="any env of gymnasium, by its id",
            config="rlcore_env_gymnasium.settings:GymnasiumConfig",
            spec="rlcore_env_gymnasium.spec:env_spec",
            tested=(GYMNASIUM,),
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    return ["pkg://rlcore_env_gymnasium.conf"]
