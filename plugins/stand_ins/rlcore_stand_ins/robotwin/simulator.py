"""Simulate tasks of the stand-in scene in chunks of actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rlcore_env_robotwin.frames import seen
from rlcore_env_robotwin.hands import components
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.spec import cameras
from rlcore_simulation.simulator import ChunkSimulator, Step

from rlcore.contracts.specs import Episode
from rlcore_stand_ins.robotwin import arm
from rlcore_stand_ins.robotwin.expert import Expert
from rlcore_stand_ins.robotwin.motion import motion
from rlcore_stand_ins.robotwin.planner import ArmPlanner
from rlcore_stand_ins.robotwin.scene import Scene
from rlcore_stand_ins.robotwin.tasks import TASKS, Seen, Thing, start

SETTLE_STEPS = 50  # of physics, 0.2 s: things fall onto the table from 1 or 2 mm
LOW = np.tile([*arm.LIMITS[:, 0], 0.0], 2)
HIGH = np.tile([*arm.LIMITS[:, 1], 1.0], 2)


class StandIn(ChunkSimulator):
    """Simulator of a task, see :class:`rlcore_simulation.simulator.ChunkSimulator`.

    Args:
        config: settings of the env.
        task: name of the task.
        sentence: instruction of the task.
        planners: planners of both arms, which hold no state of an episode.
    """

    def __init__(
        self, config: RoboTwinConfig, task: str, sentence: str, planners: Sequence[ArmPlanner]
    ) -> None:
        self.task = task
        self._config = config
        self._sentence = sentence
        self._planners = planners
        self._things: Sequence[Thing] = ()
        self._scene: Scene | None = None
        self._expert: Expert | None = None

    def start(self, episode: Episode) -> str:
        """Build the scene that (task, trial) determines, and return the instruction.

        Things are at rest, the arms bent and the grippers open.
        """
        self._things = start(self.task, episode.trial, spread=self._config.start_spread)
        self._scene = Scene(self._things, cameras(self._config))
        self._scene.settle(SETTLE_STEPS)
        self._expert = None
        return self._sentence

    @property
    def states(self) -> np.ndarray:
        """State, float32 `[14]`: targets of both arms, six joints in rad and the gripper in [0, 1]
        of each, as RoboTwin observes targets too; or the poses of both hands
        (:func:`rlcore_env_robotwin.hands.components`)."""
        scene = self._current_scene
        if self._config.robot_state == "end_effector":
            left, right = (components(scene.hand(n), scene.targets[7 * n + 6]) for n in (0, 1))
            return np.array(left + right, dtype=np.float32)
        return scene.targets.astype(np.float32)

    def play(self, actions: np.ndarray) -> Iterator[Step]:
        """Execute a chunk of targets float32 `[C, 14]`, clipped to the limits of the joints.

        A step succeeds with reward 1 if the task is solved after any of its steps of physics; the
        rest of that action is skipped then, as in RoboTwin.
        """
        scene = self._current_scene
        planned = motion(scene.targets, np.clip(actions, LOW, HIGH), self._planners[0].time)
        next_step = 0
        for end in planned.ends.tolist():
            solved = next_step > end and self._solved()  # an action without a step of physics
            for step in range(next_step, end + 1):
                scene.step(
                    [positions[step] for positions in planned.positions],
                    [velocities[step] for velocities in planned.velocities],
                    planned.grippers[step],
                )
                solved = self._solved()
                if solved:
                    break
            next_step = end + 1
            yield Step(reward=float(solved), success=solved)

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Write the frames that the policy observes into `out`, uint8 `[224, 224, 3]` by camera."""
        for name, frame in self._current_scene.frames().items():
            out[name][:] = seen(frame, center_crop=self._config.center_crop)

    def expert_chunk(self, count: int, *, speed: float) -> np.ndarray:
        """Return the expert's next targets, float32 `[count, 14]`; closer for a lower speed."""
        if self._expert is None:
            self._expert = Expert(self.task, self._current_scene, self._things, self._planners)
        return self._expert.chunk(count, speed=speed).astype(np.float32)

    @property
    def _current_scene(self) -> Scene:
        assert self._scene is not None, "start() must be called first"
        return self._scene

    def _solved(self) -> bool:
        scene = self._current_scene
        positions = {thing.name: scene.position(thing.name) for thing in self._things}
        state = Seen(positions, left=scene.targets[6], right=scene.targets[13])
        return TASKS[self.task].solved(state, self._things)
