"""Check before a run that all files of LIBERO that it needs exist. Imports no simulator.

Without this check, a damaged file would be noticed only when its task is played, maybe hours later.
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
    """Check LIBERO's code, the files of some tasks and, unless stand-ins are used, the assets.

    Raises:
        AssetError: something is missing, damaged or of another distribution. The hint is the
            command that repairs it.
    """
    tasks = list(tasks)
    require_tasks(libero_folder(), tasks)
    if not config.stand_ins:
        require_assets(assets_folder(config.assets_path), tasks)


def require_tasks(libero: Path, tasks: Iterable[str]) -> None:
    """Check the files of some tasks and of their init states by reading them.

    Raises:
        AssetError: a file is missing or damaged.
    """
    for task in tasks:
        file = task_file(libero, task)
        try:
            read_problem(file)
        except (OSError, ValueError) as error:
            raise AssetError(f"{file}: the task can't be read: {error}", hint=REPAIR) from error
        states = init_file(libero, task)
        count = len(read_init_states(states))
        if count != INIT_STATES:
            raise AssetError(
                f"{states}: it must hold {INIT_STATES} init states, got {count}", hint=REPAIR
            )
