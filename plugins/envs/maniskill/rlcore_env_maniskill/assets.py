"""Check for the asset files of ManiSkill's tasks and robots that its wheel does not contain.

This module never downloads. ManiSkill would: with `MS_SKIP_ASSET_DOWNLOAD_PROMPT=1` it downloads
without asking, else it asks in a terminal, which a worker does not have. So rlcore checks
for the files first, and builds tasks by their class, which does not ask.
"""

from __future__ import annotations

from pathlib import Path

from mani_skill import format_path
from mani_skill.agents.registration import REGISTERED_AGENTS
from mani_skill.utils import assets
from mani_skill.utils.registration import REGISTERED_ENVS

from rlcore.contracts.errors import AssetError


def require_assets(task: str) -> None:
    """Check that all asset files that the task declares exist on this machine.

    Raises:
        AssetError: an asset is missing; the error names it, its path and the download command.
    """
    _require(f"task {task!r}", REGISTERED_ENVS[task].asset_download_ids)


def require_robot(name: str) -> None:
    """Check that all asset files of a registered robot, and its URDF or MJCF file, exist.

    Raises:
        AssetError: a file is missing; the error names it.
    """
    agent = REGISTERED_AGENTS[name]
    _require(f"robot {name!r}", agent.asset_download_ids)
    file = agent.agent_cls.urdf_path or agent.agent_cls.mjcf_path
    if file is None or not Path(format_path(str(file))).is_file():
        raise AssetError(f"robot {name!r} needs its description file {file}, which does not exist")


def _require(owner: str, names: list[str] | None) -> None:
    resolve = assets.expand_data_group_into_individual_data_source_ids
    for group in names or []:
        for name in resolve(group) if group in assets.DATA_GROUPS else [group]:
            source = assets.DATA_SOURCES[name]
            place = source.output_dir / (source.target_path or "")
            if not place.exists():
                command = f"python -m mani_skill.utils.download_asset {name}"
                raise AssetError(
                    f"{owner} needs the ManiSkill asset {name!r}, and {place} does not exist",
                    hint=f"{command}  (MS_ASSET_DIR moves it)",
                )
