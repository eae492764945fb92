"""Import settings of RoboTwin."""

from __future__ import annotations

from rlcore_rlinf.rule import UNSET, ImportRule, defaults, table
from rlcore_rlinf.rules.envs import LAST_FRAME

TASK = "env.*.task_config"
CLEAN = {
    "random_background": False,
    "cluttered_table": False,
    "clean_background_rate": 1.0,
    "random_head_camera_dis": 0.0,
    "random_table_height": 0.0,
    "random_light": False,
    "crazy_random_light_rate": 0.0,
}
"""RoboTwin's `demo_clean`."""
NO_COLLECTION = "RoboTwin's own data collection and evaluation do not run"
NEEDED = "the policy needs it"
NOT_OBSERVED = "no policy observes it"

HARMLESS = {
    "env.*.task_config.render_freq": ("processes have no screen for RoboTwin's window", (0,)),
    "env.*.task_config.data_type.rgb": (NEEDED, (True,)),
    "env.*.task_config.data_type.qpos": (NEEDED, (True,)),
}
DROPPED = {
    **dict.fromkeys(
        (
            "env.*.task_config.save_freq",
            "env.*.task_config.episode_num",
            "env.*.task_config.use_seed",
            "env.*.task_config.language_num",
            "env.*.task_config.pcd_down_sample_num",
            "env.*.task_config.pcd_crop",
            "env.*.task_config.save_path",
            "env.*.task_config.collect_data",
            "env.*.task_config.eval_video_log",
        ),
        NO_COLLECTION,
    ),
    **dict.fromkeys(
        (
            "env.*.task_config.data_type.third_view",
            "env.*.task_config.data_type.depth",
            "env.*.task_config.data_type.pointcloud",
            "env.*.task_config.data_type.observer",
            "env.*.task_config.data_type.endpose",
            "env.*.task_config.data_type.mesh_segmentation",
            "env.*.task_config.data_type.actor_segmentation",
        ),
        NOT_OBSERVED,
    ),
}
IGNORED = table(harmless=HARMLESS, dropped=DROPPED)
"""Rules of keys without effect. Command lines and recipes may contain these keys, too."""

RULES = (
    ImportRule(
        "env.train.seeds_path",
        "env.train.train_seeds_path",
        "in the order of the file; RLinf shuffles",
    ),
    ImportRule(
        "env.eval.seeds_path",
        "env.eval.heldout_seeds_path",
        "in the order of the file; RLinf shuffles",
    ),
    ImportRule("env.*.center_crop", "env.*.center_crop", "of the env's frames", default=False),
    *defaults(
        "RoboTwin's default",
        {
            "env.*.task_config.planner_backend": "curobo",
            "env.*.task_config.camera.collect_wrist_camera": True,
            **{f"{TASK}.domain_randomization.{name}": value for name, value in CLEAN.items()},
        },
    ),
    *table(
        harmless={
            "env.*.use_custom_reward": ("the reward of success is reward_coef", (True,)),
        }
    ),
    *IGNORED,
    ImportRule(
        "",
        "env.eval.trials_per_task",
        "as many episodes as RLinf, each once",
        lambda _, file: file.episodes() or UNSET,
    ),
    LAST_FRAME,
)
