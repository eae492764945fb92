"""The rows of `rlcore doctor` for ManiSkill. Imports no simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore_sapien.vulkan import tried_driver

from rlcore.errors import AssetError
from rlcore_env_maniskill.hub_files import download_command, require_files
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.tasks import PUT_ON_PLATE, task_of

ASSETS = "maniskill: put-on-plate assets"


def doctor_checks(used: Sequence[ManiSkillConfig]) -> list[dict[str, str]]:
    """The driver, and the benchmark's assets: those that a run needs, else where to get them."""
    wanting = [env for env in used if any(task_of(t) is PUT_ON_PLATE for t in env.tasks or ())]
    paths = dict.fromkeys(env.assets_path for env in wanting)
    return [_driver(), *([_assets(path) for path in paths] or [_unwanted()])]


def _driver() -> dict[str, str]:
    check = {"name": "maniskill: Vulkan driver", "status": "ok", "detail": "", "fix": ""}
    try:
        return check | {"detail": tried_driver()}
    except AssetError as error:
        return check | {"status": "missing", "detail": error.message, "fix": error.hint or ""}


def _unwanted() -> dict[str, str]:
    """Nothing is missing; says how to get them anyway."""
    detail = f"not needed here; for put-on-plate tasks: {download_command(Path('ASSETS'))}"
    return {"name": ASSETS, "status": "ok", "detail": detail, "fix": ""}


def _assets(path: str | None) -> dict[str, str]:
    """Whether the folder holds every file that the task needs."""
    check = {"name": ASSETS, "status": "ok", "detail": "", "fix": ""}
    if path is None:
        return check | {"detail": "stand-ins, so no benchmark results; set assets_path"}
    root = Path(path).expanduser()
    try:
        require_files(root)
    except AssetError as error:
        return check | {"status": "missing", "detail": error.message, "fix": error.hint or ""}
    return check | {"detail": path}
