"""Convert rlcore's settings to those that RoboTwin's VectorEnv passes to a task. No simulator."""

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
"""Settings of RoboTwin's data collection and evaluation. Neither runs, but its code reads them."""


def arguments(config: RoboTwinConfig, task: str) -> Arguments:
    """Return RoboTwin's settings of one task under RoboTwin's names, as values that fit JSON.

    rlcore records videos itself, so RoboTwin writes none.
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
        "render_freq": 0,  # no window, as worker processes have no screen
        **COLLECTION,
    }


def randomization(config: RoboTwinConfig) -> dict[str, bool | int | float]:
    """Return RoboTwin's `domain_randomization`: the setting's preset, overridden by set keys."""
    own = asdict(config.task_config.domain_randomization).items()
    return preset(config.setting) | {name: value for name, value in own if value is not None}


def preset(setting: str) -> dict[str, bool | int | float]:
    """Return RoboTwin's `domain_randomization` of a setting."""
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
