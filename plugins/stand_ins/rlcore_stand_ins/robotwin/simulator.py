"""A task of the stand-in scene as a simulator of whole chunks."""

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
    """See :class:`rlcore_simulation.simulator.ChunkSimulator`.

    Args:
        config: settings.
        task: its name.
        sentence: of the task.
        planners: of both arms; they keep nothing of an episode.
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
        """A new scene, drawn by (task, trial), at rest; the arms are bent, the grippers open."""
        self._things = start(self.task, episode.trial, spread=self._config.start_spread)
        self._scene = Scene(self._things, cameras(self._config))
        self._scene.settle(SETTLE_STEPS)
        self._expert = None
        return self._sentence

    @property
    def states(self) -> np.ndarray:
        """float32 `[14]`: where both arms are bound for, six joints in rad and the gripper in
        [0, 1] of each. RoboTwin observes its targets too, not where the arms are. Or where each
        hand is (:func:`..hands.components`)."""
        scene = self._here
        if self._config.robot_state == "end_effector":
            left, right = (components(scene.hand(n), scene.targets[7 * n + 6]) for n in (0, 1))
            return np.array(left + right, dtype=np.float32)
        return scene.targets.astype(np.float32)

    def play(self, actions: np.ndarray) -> Iterator[Step]:
        """Carry out a chunk of targets float32 `[C, 14]`, clipped to what the arms can. A step is
        solved, and rewarded with 1, if the task is after any step of physics in it; then the rest
        of that action is left out, as in RoboTwin."""
        scene = self._here
        timed = motion(scene.targets, np.clip(actions, LOW, HIGH), self._planners[0].time)
        first = 0
        for end in timed.ends.tolist():
            solved = first > end and self._solved()  # an action without a step of its own
            for now in range(first, end + 1):
                scene.step(
                    [positions[now] for positions in timed.positions],
                    [velocities[now] for velocities in timed.velocities],
                    timed.grippers[now],
                )
                solved = self._solved()
                if solved:
                    break
            first = end + 1
            yield Step(reward=float(solved), success=solved)

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Write the cameras' frames, as a policy sees them, into `out`, uint8 `[224, 224, 3]`."""
        for name, frame in self._here.frames().items():
            out[name][:] = seen(frame, center_crop=self._config.center_crop)

    def expert_chunk(self, count: int, *, speed: float) -> np.ndarray:
        """The expert's next targets, float32 `[count, 14]`; slower, its paths take more of them."""
        if self._expert is None:
            self._expert = Expert(self.task, self._here, self._things, self._planners)
        return self._expert.chunk(count, speed=speed).astype(np.float32)

    @property
    def _here(self) -> Scene:
        assert self._scene is not None, "start() comes first"
        return self._scene

    def _solved(self) -> bool:
        scene = self._here
        positions = {thing.name: scene.position(thing.name) for thing in self._things}
        state = Seen(positions, left=scene.targets[6], right=scene.targets[13])
        return TASKS[self.task].solved(state, self._things)
