"""Register this package with rlcore. Strings only."""

from __future__ import annotations

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec

RLCORE_API = (0, 1)
SUMMARIES = {
    "lerobot": ("LeRobotV3", "LeRobot v3.0, a video a camera (AV1)"),
    "lerobot_images": ("LeRobotV3Images", "LeRobot v3.0, frames as PNG, without loss"),
    "lerobot_v21": ("LeRobotV21", "LeRobot v2.1, a video a camera (AV1); reads v2.0 too"),
    "lerobot_v21_images": ("LeRobotV21Images", "LeRobot v2.1, frames as PNG, without loss"),
}


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Formats of data sets, the env that a data set describes, and the command `data`."""
    return [
        *(
            ComponentSpec(
                kind="dataset",
                name=name,
                target=f"rlcore_data_lerobot.formats:{attribute}",
                summary=summary,
            )
            for name, (attribute, summary) in SUMMARIES.items()
        ),
        ComponentSpec(
            kind="env",
            name="data",
            target="rlcore_data_lerobot.env:make_env",
            summary="recorded episodes alone, without a simulator: for sft, serve, export",
            config="rlcore_data_lerobot.env_settings:DataEnvConfig",
            spec="rlcore_data_lerobot.env:env_spec",
        ),
        ComponentSpec(
            kind="command",
            name="data",
            target="rlcore_data_lerobot.command:main",
            summary="write the description of a LeRobot data set: data describe FOLDER",
        ),
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    """The option `env=data`."""
    return ["pkg://rlcore_data_lerobot.conf"]
