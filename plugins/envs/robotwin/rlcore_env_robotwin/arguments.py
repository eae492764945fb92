"""Our settings as RoboTwin's: what its own VectorEnv hands to a task. Light."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rlcore_env_robotwin.settings import RoboTwinConfig

Arguments = dict[str, Any]
OBSERVED = ("rgb", "qpos")
NOT_OBSERVED = (
    *("third_view", "depth", "pointcloud", "observer", "endpose"),
    *("mesh_segmentation", "actor_segmentation"),
)
COLLECTION = {
    "save_freq": 15,
    "episode_num": 100,
    "use_seed": False,
    "language_num": 100,
    "pcd_down_sample_num": 1024,
    "pcd_crop": True,
    "save_path": "./data",
    "collect_data": True,
    "eval_video_log": True,
}
"""Of RoboTwin's data collection and evaluation, neither of which runs; its code reads them."""


def arguments(config: RoboTwinConfig, task: str) -> Arguments:
    """RoboTwin's settings of one task under RoboTwin's names: plain values, for JSON.

    Videos are rlcore's own, so RoboTwin writes none.
    """
    own = config.task_config
    return {
        "task_name": task,
        "step_lim": own.step_lim or config.max_episode_steps,
        "planner_backend": own.planner_backend,
        "embodiment": list(own.embodiment),
        "domain_randomization": randomization(config),
        "camera": asdict(own.camera),
        "data_type": dict.fromkeys(OBSERVED, True) | dict.fromkeys(NOT_OBSERVED, False),
        "clear_cache_freq": own.clear_cache_freq,
        "render_freq": 0,  # a window, which processes without a screen do not have
        **COLLECTION,
    }


def randomization(config: RoboTwinConfig) -> dict[str, bool | int | float]:
    """RoboTwin's `domain_randomization`: that of the setting, with what is set besides."""
    own = asdict(config.task_config.domain_randomization).items()
    return preset(config.setting) | {name: value for name, value in own if value is not None}


def preset(setting: str) -> dict[str, bool | int | float]:
    """What a setting makes random."""
    randomized = setting == "demo_randomized"
    return {
        "random_background": randomized,
        "cluttered_table": randomized,
        "clean_background_rate": 0.02 if randomized else 1,
        "random_head_camera_dis": 0,
        "random_table_height": 0.03 if randomized else 0,
        "random_light": randomized,
        "crazy_random_light_rate": 0.02 if randomized else 0,
    }
