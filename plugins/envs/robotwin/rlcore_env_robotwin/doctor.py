"""The rows of `rlcore doctor` for RoboTwin. Imports no simulator."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.errors import AssetError
from rlcore_env_robotwin.checkout import CLONE, repository, require_assets, require_packages
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.spec import env_spec

CODE, ASSETS = "robotwin: repository", "robotwin: assets"
PACKAGES = "robotwin: the simulators' environment"


def doctor_checks(used: Sequence[RoboTwinConfig]) -> list[dict[str, str]]:
    """Repository and assets of the envs that a run uses, else where to get them."""
    if not used:
        return [_row(CODE, f"for env=robotwin_TASK: {CLONE}")]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for env in used:
        for row in _of(env):
            rows[row["name"], row["detail"]] = row
    return list(rows.values())


def _of(env: RoboTwinConfig) -> list[dict[str, str]]:
    rows = []
    try:
        require_packages(env)
    except AssetError as error:
        rows.append(_missing(PACKAGES, error))
    if env.stand_ins:
        return [*rows, _row(ASSETS, "stand-ins, so no results on RoboTwin")]
    try:
        rows.append(_row(CODE, str(repository(env))))
    except AssetError as error:
        return [*rows, _missing(CODE, error)]
    try:
        require_assets(env, env_spec(env).tasks)
        rows.append(_row(ASSETS, str(env.assets_path or env.robotwin_path)))
    except AssetError as error:
        rows.append(_missing(ASSETS, error))
    return rows


def _row(name: str, detail: str) -> dict[str, str]:
    return {"name": name, "status": "ok", "detail": detail, "fix": ""}


def _missing(name: str, error: AssetError) -> dict[str, str]:
    return {"name": name, "status": "missing", "detail": error.message, "fix": error.hint or ""}
