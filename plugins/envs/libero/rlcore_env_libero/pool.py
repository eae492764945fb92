"""The simulators of one process, and the scenes that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rlcore_mujoco.render import Renderers, prepare_model
from rlcore_simulation.cache import SimulatorCache

from rlcore.contracts.errors import AssetError
from rlcore_env_libero.assets import assets_folder
from rlcore_env_libero.init_states import read_init_states
from rlcore_env_libero.installed import COMMAND, INSTALL, libero_folder
from rlcore_env_libero.present import require_all
from rlcore_env_libero.problem import init_file, read_problem, task_file
from rlcore_env_libero.quiet import assets_from, load_libero
from rlcore_env_libero.scene import Scene
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.simulator import LiberoSimulator
from rlcore_env_libero.spec import env_spec, view_of
from rlcore_env_libero.stand_ins.write import write_stand_ins


class Scenes:
    """The compiled tasks of one process.

    A task takes seconds to compile and 100 MB to keep, a row in it milliseconds and little. So
    tasks are kept: those that a row plays, and of the others the `config.cached_tasks` played last.
    """

    def __init__(self, config: LiberoConfig, renderers: Renderers) -> None:
        self._config = config
        self._renderers = renderers
        self._libero = libero_folder()
        self._scenes: dict[str, Scene] = {}  # played longest ago first
        self._users: Counter[str] = Counter()

    def take(self, task: str) -> Scene:
        """The scene of a task, for one more simulator."""
        scene = self._scenes.pop(task) if task in self._scenes else self._compile(task)
        self._scenes[task] = scene
        self._users[task] += 1
        return scene

    def leave(self, task: str) -> None:
        """One simulator of the task less."""
        self._users[task] -= 1
        self._scenes[task] = self._scenes.pop(task)
        unused = [name for name in self._scenes if not self._users[name]]
        for name in unused[: max(0, len(unused) - self._config.cached_tasks)]:
            self._free(name)

    def close(self) -> None:
        """Free all of them."""
        for task in list(self._scenes):
            self._free(task)

    def _free(self, task: str) -> None:
        self._scenes.pop(task).close()
        self._renderers.leave(task)

    def _compile(self, task: str) -> Scene:
        file = task_file(self._libero, task)
        load_libero(self._libero)
        with _assets(self._config) as folder, assets_from(folder):
            scene = Scene(self._libero, file, read_problem(file))
        scene.built.put(scene.model)
        prepare_model(scene.model, self._renderers.view)
        self._renderers.join(task)
        return scene


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
    """Simulators by task; those of the same task share its scene and a renderer. An idle one is
    dropped, while its scene is kept."""
    spec = env_spec(config)
    if config.interpreter() is not None:  # before, only this interpreter could have looked
        try:
            require_all(config, spec.tasks)
        except AssetError as error:
            hint = error.hint and error.hint.replace(COMMAND, INSTALL)
            raise AssetError(error.message, hint=hint) from error
    libero = libero_folder()
    renderers = Renderers(view_of(config))
    scenes = Scenes(config, renderers)

    def build(number: int) -> LiberoSimulator:
        task = spec.tasks[number]
        init_states = read_init_states(init_file(libero, task))
        return LiberoSimulator(config, task, scenes.take(task), init_states, renderers)

    return SimulatorCache(build, keep=0, drop=lambda row: scenes.leave(row.task), free=scenes.close)
