"""The rows of `rlcore doctor` for LIBERO. Imports no simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore_mujoco.gl import doctor_checks as gl_checks

from rlcore.errors import AssetError
from rlcore_env_libero.assets import (
    assets_folder,
    download_command,
    holds_anything,
    require_assets,
)
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.spec import env_spec
from rlcore_env_libero.suites import ALL, SUITES

ASSETS = "libero: assets"


def doctor_checks(used: Sequence[LiberoConfig]) -> list[dict[str, str]]:
    """GL, LIBERO's code, and the assets of the envs that a run uses, else where to get them."""
    code = {"name": "libero: LIBERO's own code", "status": "ok", "detail": "", "fix": ""}
    try:
        code["detail"] = str(libero_folder())
    except AssetError as error:
        code |= {"status": "missing", "detail": error.message, "fix": error.hint or ""}
        return [*gl_checks("libero"), code]
    return [*gl_checks("libero"), code, *_assets(used)]


def _assets(used: Sequence[LiberoConfig]) -> list[dict[str, str]]:
    if not used:
        root = assets_folder(None)
        if holds_anything(root):
            return [_those_of(root, SUITES[ALL])]
        detail = f"not here; to get them: {download_command(root)}"
        return [{"name": ASSETS, "status": "ok", "detail": detail, "fix": ""}]
    rows: dict[str, dict[str, str]] = {}
    for env in used:
        if env.stand_ins:
            detail = "stand-ins, so no results on LIBERO"
            row = {"name": ASSETS, "status": "ok", "detail": detail, "fix": ""}
        else:
            row = _those_of(assets_folder(env.assets_path), env_spec(env).tasks)
        rows[row["detail"]] = row
    return list(rows.values())


def _those_of(root: Path, tasks: Sequence[str]) -> dict[str, str]:
    """Whether a folder has all files of some tasks."""
    row = {"name": ASSETS, "status": "ok", "detail": str(root), "fix": ""}
    try:
        require_assets(root, tasks)
    except AssetError as error:
        row |= {"status": "missing", "detail": error.message, "fix": error.hint or ""}
    return row
