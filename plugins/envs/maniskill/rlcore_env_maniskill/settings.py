"""The settings of a ManiSkill env. Light: imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_simulation.settings import SimulatedEnvConfig

from rlcore.config.schema import Door, key
from rlcore_env_maniskill.robots import ARM_COMMANDS

THIRD_PERSON = "third_person"


@dataclass
class ManiSkillConfig(SimulatedEnvConfig):
    """ManiSkill3; `tasks` are its ids."""

    env_type: str = key("registered name of the env", "maniskill")
    register: list[str] = key(
        "modules to import, so that ManiSkill knows tasks of your own",
        [],
        door=Door("imports the modules", ([],)),
    )
    sim_backend: str = key(
        "cpu: a simulator per sub-env, spread over processes; gpu: one batched simulation",
        "cpu",
        choices=("cpu", "gpu"),
    )
    obs_mode: str = key(
        "rgb: cameras, and what the robot knows of itself; state: ManiSkill's flat state, no image",
        "rgb",
        choices=("rgb", "state"),
    )
    cameras: list[str] = key(
        "cameras by their names in ManiSkill (base_camera, hand_camera of panda_wristcam); "
        "third_person: the first one that no robot carries",
        [THIRD_PERSON],
    )
    image_size: int = key("height of frames in pixels, and their width", 224, least=1)
    image_width: int | None = key("width of frames in pixels; null: image_size", least=1)
    show_goal: bool = key(
        "draw what ManiSkill hides from cameras, such as PickCube's goal; in the manifest", True
    )
    fast_render: bool = key(
        "draw robots by the shapes they have for contacts: 10 times faster at 64 px on a CPU, "
        "other pixels; in the manifest",
        False,
    )
    robot: str | None = key("robot by its ManiSkill name; null: the task's own")
    control_mode: str | None = key(
        "controller of the robot; null: pd_ee_delta_pose, or what the robot of the assets has",
        choices=tuple(ARM_COMMANDS),
    )
    action_units: str = key(
        "of motion entries: robot: its controller's own, [-1, 1]; metric: metres and radians",
        "robot",
        choices=("robot", "metric"),
    )
    gripper: str = key(
        "continuous: -1 closes, +1 opens; binary: entries in [0, 1], above one half opens",
        "continuous",
        choices=("continuous", "binary"),
    )
    reward: str = key(
        "sparse: 1 at a step where the task is solved (-1 where the task says that it failed); "
        "dense: ManiSkill's own; grasp: 0.1 for a "
        "grasp, 0.1 for holding it, 1 for success with it, as differences (put-on-plate tasks)",
        "sparse",
        choices=("sparse", "dense", "grasp"),
    )
    object_set: str | None = key(
        "put-on-plate: objects, tables and so on of training, held-out ones, or all; null: "
        "train for the main task, test for its variants",
        choices=("train", "test", "all"),
    )
    hold: dict[str, int] = key(
        "put-on-plate: what is the same in all episodes, by its number: {object: 0, table: 3}; "
        "also plate, place, yaw, and what a variant adds",
        {},
        least=0,
    )
    assets_path: str | None = key(
        "put-on-plate: folder of the assets; null: stand-ins made of primitive shapes", place=True
    )
    state_size: int | None = key(
        "entries of ManiSkill's flat state, where rlcore does not know the task", least=1
    )
    rebuild_scene: bool = key(
        "build the scene anew at each start, so that all that follows it repeats to the bit; "
        "without, starts do, but what touches may move otherwise by what was played before",
        True,
    )
    cached_simulators: int = key(
        "idle simulators a process keeps for the next episode of their task", 4, least=0
    )

    @property
    def frame_width(self) -> int:
        """Pixels."""
        return self.image_size if self.image_width is None else self.image_width
