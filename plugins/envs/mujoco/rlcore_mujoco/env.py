"""Make an rlcore Env of simulators on MuJoCo. This module imports no simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_simulation.simulator import SimulatorSource

from rlcore.contracts.specs import EnvSpec
from rlcore_mujoco.gl import choose_gl


def make_env(
    spec: EnvSpec,
    source: SimulatorSource,
    config: SimulatedEnvConfig,
    *,
    num_envs: int,
    rank: int,
    num_processes: int,
) -> SimulatedEnv:
    """Make the env of env worker `rank`.

    The simulators render with the GL library that :func:`rlcore_mujoco.gl.choose_gl` returns. The
    returned env's spec records it in `render_settings["gl"]`.

    Args:
        spec: the plugin's spec for `config`.
        source: source of the plugin's simulators.
        config: settings of the env.
        num_envs: number of rows of this env worker.
        rank: rank of this env worker, which determines the number of its first row.
        num_processes: number of simulator processes; 0 simulates in this process.

    Raises:
        AssetError: this machine has no GL library. Raised before any process starts.
        ConfigError: `MUJOCO_GL` names no GL backend of MuJoCo.
    """
    gl = choose_gl()
    variables: Mapping[str, str] = {} if gl is None else {"MUJOCO_GL": gl}
    return SimulatedEnv(
        replace(spec, render_settings={**spec.render_settings, "gl": gl or "platform"}),
        replace(
            source,
            environment={**source.environment, **variables},
            # without a display, importing mujoco fails unless MUJOCO_GL is set
            readers=(*source.readers, "mujoco"),
            packages=(*source.packages, "rlcore_mujoco"),
        ),
        config,
        num_envs=num_envs,
        first_slot=rank * num_envs,
        num_processes=num_processes,
    )
