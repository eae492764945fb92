"""Files that a task of ManiSkill's own needs besides its wheel. Never downloads anything.

`MS_SKIP_ASSET_DOWNLOAD_PROMPT=1` makes ManiSkill download without asking, and without it a worker
would wait for an answer on a terminal it does not have. So tasks are made past that question.
"""

from __future__ import annotations

from mani_skill.utils import assets
from mani_skill.utils.registration import REGISTERED_ENVS

from rlcore.errors import AssetError


def require_assets(task: str) -> None:
    """Check that everything the task declares is on this machine.

    Raises:
        AssetError: what is missing, where it belongs and the command that brings it.
    """
    for name in _sources(REGISTERED_ENVS[task].asset_download_ids or []):
        source = assets.DATA_SOURCES[name]
        place = source.output_dir / (source.target_path or "")
        if not place.exists():
            raise AssetError(
                f"task {task!r} needs the ManiSkill asset {name!r}, and {place} does not exist",
                hint=f"python -m mani_skill.utils.download_asset {name}  (MS_ASSET_DIR moves it)",
            )


def _sources(names: list[str]) -> list[str]:
    """Names of data sources, groups of them resolved."""
    resolve = assets.expand_data_group_into_individual_data_source_ids
    return [
        source
        for name in names
        for source in (resolve(name) if name in assets.DATA_GROUPS else [name])
    ]
