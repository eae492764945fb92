"""Simulators on MuJoCo as an rlcore Env. Importing it loads no simulator."""

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
    """The env of worker `rank`: `num_envs` rows in `num_processes` processes (0: in this one).

    Simulators get the GL library that :func:`rlcore_mujoco.gl.choose_gl` finds, and the spec says
    which one it is.

    Args:
        spec: what the plugin offers under `config`.
        source: of its simulators.
        config: its settings.

    Raises:
        AssetError: no GL library; before any process starts.
        ConfigError: `MUJOCO_GL` names none.
    """
    gl = choose_gl()
    variables: Mapping[str, str] = {} if gl is None else {"MUJOCO_GL": gl}
    return SimulatedEnv(
        replace(spec, render_settings={**spec.render_settings, "gl": gl or "platform"}),
        replace(
            source,
            environment={**source.environment, **variables},
            # on a machine without a display it fails without that variable
            readers=(*source.readers, "mujoco"),
            packages=(*source.packages, "rlcore_mujoco"),
        ),
        config,
        num_envs=num_envs,
        first_slot=rank * num_envs,
        num_processes=num_processes,
    )
