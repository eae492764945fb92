"""Make the simulators of one process, and the scenes that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
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


class Scenes:
    """Cache of the compiled scenes of one process, by task.

    A scene takes seconds to compile and much memory: 0.1 GB with stand-ins, near 1 GB with
    LIBERO's own assets. A row in it takes milliseconds and little memory. So the cache keeps
    the scenes that rows are playing, and of the other scenes the `config.cached_tasks` most
    recently used ones.

    Args:
        config: settings of the env.
        renderers: renderers of this process.
        write_stand_ins: see :func:`make_pool`.
    """

    def __init__(
        self,
        config: LiberoConfig,
        renderers: Renderers,
        write_stand_ins: Callable[[Path], None] | None,
    ) -> None:
        self._config = config
        self._write_stand_ins = write_stand_ins
        self._renderers = renderers
        self._libero = libero_folder()
        self._scenes: dict[str, Scene] = {}  # least recently used first
        self._users: Counter[str] = Counter()

    def take(self, task: str) -> Scene:
        """Return the scene of a task for a new simulator, and compile it if necessary."""
        scene = self._scenes.pop(task) if task in self._scenes else self._compile(task)
        self._scenes[task] = scene
        self._users[task] += 1
        return scene

    def leave(self, task: str) -> None:
        """Remove a simulator of the task, and free the scenes that exceed the cache."""
        self._users[task] -= 1
        self._scenes[task] = self._scenes.pop(task)
        unused = [name for name in self._scenes if not self._users[name]]
        for name in unused[: max(0, len(unused) - self._config.cached_tasks)]:
            self._free(name)

    def close(self) -> None:
        """Free all scenes."""
        for task in list(self._scenes):
            self._free(task)

    def _free(self, task: str) -> None:
        self._scenes.pop(task).close()
        self._renderers.leave(task)

    def _compile(self, task: str) -> Scene:
        file = task_file(self._libero, task)
        load_libero(self._libero)
        with self._assets() as folder, assets_from(folder):
            scene = Scene(self._libero, file, read_problem(file))
        scene.built.put(scene.model)
        prepare_model(scene.model, self._renderers.view)
        self._renderers.join(task)
        return scene

    @contextmanager
    def _assets(self) -> Iterator[Path]:
        """Yield the folder of assets from which scenes are built.

        Stand-ins are written to a temporary folder each time, so that no files remain.
        """
        if self._write_stand_ins is None:
            yield assets_folder(self._config.assets_path)
            return
        with TemporaryDirectory(prefix="rlcore-libero-") as folder:
            self._write_stand_ins(Path(folder))
            yield Path(folder)


def make_pool(
    config: LiberoConfig, write_stand_ins: Callable[[Path], None] | None = None
) -> SimulatorCache[LiberoSimulator]:
    """Return a pool of simulators by task.

    Simulators of the same task share a scene and a renderer. The pool keeps no idle simulators, but
    :class:`Scenes` keeps their scenes.

    Args:
        config: settings of the env.
        write_stand_ins: function that writes stand-ins of all assets into a folder; None: the
            scenes have LIBERO's own assets.

    Raises:
        AssetError: files of LIBERO are missing in this interpreter, see :func:`require_all`.
    """
    spec = env_spec(config)
    if config.interpreter() is not None:  # rlcore's own interpreter could not check
        try:
            require_all(config, spec.tasks)
        except AssetError as error:
            hint = error.hint and error.hint.replace(COMMAND, INSTALL)
            raise AssetError(error.message, hint=hint) from error
    libero = libero_folder()
    renderers = Renderers(view_of(config))
    scenes = Scenes(config, renderers, write_stand_ins)

    def build(number: int) -> LiberoSimulator:
        task = spec.tasks[number]
        init_states = read_init_states(init_file(libero, task))
        return LiberoSimulator(config, task, scenes.take(task), init_states, renderers)

    return SimulatorCache(build, keep=0, drop=lambda row: scenes.leave(row.task), free=scenes.close)
