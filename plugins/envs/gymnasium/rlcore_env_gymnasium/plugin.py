"""List the components of this plugin. Targets are strings, so listing imports no gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlcore_simulation.versions import GYMNASIUM

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec, OtherInterpreter

if TYPE_CHECKING:
    from rlcore.config.schema import EnvConfig

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            kind="env",
            name="gymnasium",
            target="rlcore_env_gymnasium.env:make_env",
            summary="any env of gymnasium, by its id",
            config="rlcore_env_gymnasium.derive:ComposedGymnasiumConfig",
            spec="rlcore_env_gymnasium.spec:env_spec",
            tested=(GYMNASIUM,),
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    return ["pkg://rlcore_env_gymnasium.conf"]


@hookimpl
def rlcore_versions(envs: Mapping[str, EnvConfig]) -> list[OtherInterpreter]:
    """Record the folders of modules of a run that starts; other commands on it may import them."""
    from rlcore_env_gymnasium import modules
    from rlcore_env_gymnasium.settings import GymnasiumConfig

    for config in envs.values():
        if isinstance(config, GymnasiumConfig) and config.module_path is not None:
            modules.note(config.module_path)
    return []
