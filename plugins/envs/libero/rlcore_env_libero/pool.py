"""The simulators of one process, and the scenes that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rlcore_mujoco.render import Renderers, prepare_model
from rlcore_mujoco.view import View
from rlcore_simulation.cache import SimulatorCache

from rlcore_env_libero.assets import assets_folder
from rlcore_env_libero.cameras import view_of
from rlcore_env_libero.init_states import read_init_states
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.problem import init_file, read_problem, task_file
from rlcore_env_libero.quiet import assets_from, load_libero
from rlcore_env_libero.scene import Scene
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.simulator import LiberoSimulator
from rlcore_env_libero.spec import env_spec
from rlcore_env_libero.stand_ins.write import write_stand_ins


class Scenes:
    """The compiled tasks of one process; one is freed with its last simulator."""

    def __init__(self, config: LiberoConfig, view: View) -> None:
        self._config = config
        self._view = view
        self._libero = libero_folder()
        self._scenes: dict[str, Scene] = {}
        self._users: Counter[str] = Counter()

    def take(self, task: str) -> Scene:
        """The scene of a task, for one more simulator."""
        if task not in self._scenes:
            file = task_file(self._libero, task)
            load_libero(self._libero)
            with _assets(self._config) as folder, assets_from(folder):
                self._scenes[task] = Scene(self._libero, file, read_problem(file))
            prepare_model(self._scenes[task].model, self._view)
        self._users[task] += 1
        return self._scenes[task]

    def leave(self, task: str) -> None:
        """One simulator of the task less."""
        self._users[task] -= 1
        if not self._users[task]:
            self._scenes.pop(task).close()


@contextmanager
def _assets(config: LiberoConfig) -> Iterator[Path]:
    """The folder that scenes are built from. Stand-ins are written anew each time, so that none
    are left behind."""
    if not config.stand_ins:
        yield assets_folder(config.assets_path)
        return
    with TemporaryDirectory(prefix="rlcore-libero-") as folder:
        write_stand_ins(Path(folder))
        yield Path(folder)


def make_pool(config: LiberoConfig) -> SimulatorCache[LiberoSimulator]:
    """Simulators by task; those of the same task share its scene and a renderer."""
    spec = env_spec(config)
    libero = libero_folder()
    view = view_of(config.cameras, config.image_size, fast=config.fast_render)
    scenes, renderers = Scenes(config, view), Renderers(view)

    def build(number: int) -> LiberoSimulator:
        task = spec.tasks[number]
        return LiberoSimulator(
            task,
            scenes.take(task),
            read_init_states(init_file(libero, task)),
            renderers,
            settle_steps=config.settle_steps,
        )

    def drop(simulator: LiberoSimulator) -> None:
        simulator.close()
        scenes.leave(simulator.task)

    return SimulatorCache(build, keep=config.cached_simulators, drop=drop)
