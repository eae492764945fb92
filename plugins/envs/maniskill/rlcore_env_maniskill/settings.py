"""Define the settings of a ManiSkill env. Imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_simulation.settings import SimulatedEnvConfig, render_detail_key

from rlcore.config.schema import TrustedKey, When, key
from rlcore.contracts.specs import ComponentSpec
from rlcore_env_maniskill.robots import ARM_COMMANDS

THIRD_PERSON = "third_person"
DRAWN = When("obs_mode", ("rgb",))
ON_CPU = When("sim_backend", ("cpu",))


@dataclass
class ManiSkillConfig(SimulatedEnvConfig):
    """ManiSkill3; `tasks` holds its task ids."""

    env_type: str = key("registered name of the env", "maniskill")
    register: list[str] = key(
        "modules to import that register tasks of your own with ManiSkill",
        [],
        trusted=TrustedKey("imports the modules", ([],)),
    )
    sim_backend: str = key(
        "cpu: a simulator per sub-env, spread over processes; gpu: one batched simulation",
        "cpu",
        choices=("cpu", "gpu"),
    )
    obs_mode: str = key(
        "rgb: camera frames and the robot's own state; state: ManiSkill's flat state, no images",
        "rgb",
        choices=("rgb", "state"),
    )
    robot_state: str = key(
        "end_effector: position and quaternion of the hand, opening of the gripper; joints: "
        "ManiSkill's qpos, the arm's joints and then the fingers, which RLinf sends pi0",
        "end_effector",
        choices=("end_effector", "joints"),
        when=DRAWN,
    )
    cameras: list[str] = key(
        "cameras by their names in ManiSkill (base_camera, hand_camera of panda_wristcam); "
        "third_person: the first camera that is not on a robot",
        [THIRD_PERSON],
        when=DRAWN,
    )
    image_size: int = key(
        "height of frames in pixels, and their width",
        224,
        minimum=1,
        magnitude_limit=4096,
        when=DRAWN,
    )
    image_width: int | None = key(
        "width of frames in pixels; null: image_size", minimum=1, magnitude_limit=4096, when=DRAWN
    )
    show_goal: bool = key(
        "render what ManiSkill hides from cameras, such as PickCube's goal; in the manifest",
        True,
        when=DRAWN,
    )
    fast_render: bool = key(
        "render robots by their collision shapes: 10 times faster at 64 px on a CPU, but other "
        "pixels; in the manifest",
        False,
        when=DRAWN,
    )
    render_detail: str = render_detail_key((DRAWN,))
    robot: str | None = key("robot by its ManiSkill name; null: the task's own")
    control_mode: str | None = key(
        "controller of the robot; null: pd_ee_delta_pose, or the one of the assets' robot",
        choices=tuple(ARM_COMMANDS),
    )
    action_units: str = key(
        "units of motion; robot: the controller's own, [-1, 1]; metric: metres and radians",
        "robot",
        choices=("robot", "metric"),
    )
    gripper: str = key(
        "continuous: -1 closes, +1 opens; binary: a number in [0, 1], above 0.5 opens",
        "continuous",
        choices=("continuous", "binary"),
    )
    reward: str = key(
        "sparse: 1 at each step at which the task is solved (-1 where the task reports failure); "
        "dense: ManiSkill's own; grasp: 0.1 for a grasp, 0.1 for holding on, 1 for success after "
        "a grasp, as differences (put-on-plate tasks)",
        "sparse",
        choices=("sparse", "dense", "grasp"),
    )
    object_set: str | None = key(
        "put-on-plate: which objects, tables and so on: those of training, the held-out ones or "
        "all; null: train for the main task, test for its variants",
        choices=("train", "test", "all"),
    )
    hold: dict[str, int] = key(
        "put-on-plate: factors that are fixed in all episodes, by number: {object: 0, table: 3}; "
        "also plate, place, yaw and the factors of a variant",
        {},
        minimum=0,
    )
    stand_ins: bool = key(
        "put-on-plate: primitive shapes and a panda in place of the benchmark's assets; results "
        "with them are not benchmark results",
        False,
    )
    assets_path: str | None = key(
        "put-on-plate: folder of the assets; null: MANISKILL_ASSET_DIR, else the "
        "download folder (see rlcore doctor)",
        place="path",
        when=When("stand_ins", (False,)),
    )
    state_size: int | None = key(
        "size of ManiSkill's flat state, for tasks that rlcore does not know",
        minimum=1,
        when=When("obs_mode", ("state",)),
    )
    rebuild_scene: bool = key(
        "rebuild the scene at each start, so that the whole episode repeats to the bit; without "
        "it only the start does, and contacts may depend on the episodes before",
        True,
        when=ON_CPU,
    )
    cached_simulators: int = key(
        "idle simulators that a process keeps for the next episode of their task",
        4,
        minimum=0,
        when=ON_CPU,
    )

    def resolve(self, spec: ComponentSpec) -> None:
        """Leave `python` unset: by default simulators run with rlcore's own interpreter.

        Another environment adds only the motion planner, and the batched simulation on the GPU
        can't run in it.
        """

    @property
    def frame_width(self) -> int:
        """Width of frames in pixels."""
        return self.image_size if self.image_width is None else self.image_width
