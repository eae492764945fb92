"""Whether all that a run needs of LIBERO is on this machine, looked at before it starts. Light.

Otherwise a damaged file shows up when its task is played, hours later.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlcore.contracts.errors import AssetError
from rlcore_env_libero.assets import assets_folder, require_assets
from rlcore_env_libero.init_states import read_init_states
from rlcore_env_libero.installed import REPAIR, libero_folder
from rlcore_env_libero.problem import init_file, read_problem, task_file
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.spec import INIT_STATES


def require_all(config: LiberoConfig, tasks: Iterable[str]) -> None:
    """LIBERO's code, what it says of these tasks, and without stand-ins the assets.

    Raises:
        AssetError: what is missing, damaged or another's, and the command that mends it.
    """
    tasks = list(tasks)
    require_tasks(libero_folder(), tasks)
    if not config.stand_ins:
        require_assets(assets_folder(config.assets_path), tasks)


def require_tasks(libero: Path, tasks: Iterable[str]) -> None:
    """The files of tasks and of their init states.

    Raises:
        AssetError: one is missing or damaged.
    """
    for task in tasks:
        file = task_file(libero, task)
        try:
            read_problem(file)
        except (OSError, ValueError) as error:
            raise AssetError(f"{file}: the task can't be read: {error}", hint=REPAIR) from error
        states = init_file(libero, task)
        found = len(read_init_states(states))
        if found != INIT_STATES:
            raise AssetError(
                f"{states}: it must hold {INIT_STATES} init states, got {found}", hint=REPAIR
            )
