"""List the components of this plugin. Targets are strings, so listing imports no simulator."""

from __future__ import annotations

from typing import Any

from rlcore_mujoco.versions import MUJOCO
from rlcore_simulation.versions import GYMNASIUM

from rlcore.contracts.component import ComponentSpec, SimulatorVersions
from rlcore.contracts.hookspecs import hookimpl

RLCORE_API = (0, 1)
METAWORLD = SimulatorVersions("metaworld", ">=3.0.0,<=3.1.1")


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            kind="env",
            name="metaworld",
            target="rlcore_env_metaworld.env:make_env",
            summary="MetaWorld v3: 50 tasks of a Sawyer arm (MT50, ML45), MuJoCo on the CPU",
            config="rlcore_env_metaworld.settings:MetaWorldConfig",
            spec="rlcore_env_metaworld.spec:env_spec",
            # gymnasium imports packaging, but does not list it as a requirement
            requirements=(
                METAWORLD.requirement,
                MUJOCO.requirement,
                "numpy>=1.24",
                "packaging",
            ),
            tested=(MUJOCO, METAWORLD, GYMNASIUM),
        ),
        ComponentSpec(
            kind="protocol",
            name="metaworld_mt50",
            target="rlcore_env_metaworld.protocol:MT50",
            summary="all 50 tasks of MetaWorld by difficulty, as in the published table",
        ),
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    return ["pkg://rlcore_env_metaworld.conf"]


@hookimpl
def rlcore_doctor(config: Any | None) -> list[dict[str, str]]:
    from rlcore_env_metaworld.doctor import doctor_checks

    if config is None:
        return doctor_checks([])
    used = [env for env in config.active_envs.values() if env.env_type == "metaworld"]
    return doctor_checks(used) if used else []
