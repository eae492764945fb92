"""The stand-in scene as an env: in an environment of its own, while the rest runs in this one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import assemble, compose
from rlcore_env_robotwin.env import make_env
from rlcore_env_robotwin.plugin import rlcore_components
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.tasks import BOXES
from rlcore_sapien.vulkan import environment
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.interpreters import query_interpreter
from rlcore_testing import EnvConformance

from rlcore.contracts.errors import AssetError
from rlcore.contracts.specs import Episode
from rlcore.training import train

# Making the environment takes a while, once.
pytestmark = pytest.mark.timeout(1800)
STACK, HANDOVER = "stack_blocks_two", "handover_block"
CHUNK = 25  # actions of a chunk of the published OpenVLA-OFT


@pytest.fixture(scope="module")
def made_with(other_venv: Callable[..., Path]) -> Callable[..., str]:
    """`made_with(VERSION=None)`: an interpreter with SAPIEN and mplib, of this version of Python or
    of any that the env takes."""
    try:
        environment()
    except AssetError as error:
        pytest.skip(error.message)
    component = rlcore_components()[0]

    def made(version: str | None = None) -> str:
        name, wanted = component.name, component.requires_python
        if version is not None:
            name, wanted = f"{name}-python{version}", f"=={version}.*"
        folder = other_venv(name, *component.requirements, requires_python=wanted)
        return str(folder / "bin/python")

    return made


@pytest.fixture(scope="module")
def python(made_with: Callable[..., str]) -> str:
    return made_with()


@pytest.fixture(scope="module")
def make(python: str) -> Iterator[Callable[..., SimulatedEnv]]:
    """Makes envs of one process, and closes them."""
    made: list[SimulatedEnv] = []

    def make_one(num_envs: int, *tasks: str, **settings: Any) -> SimulatedEnv:
        settings = {"python": python, **settings}
        config = RoboTwinConfig(stand_ins=True, tasks=[*tasks], **settings)
        rows = {"num_envs": num_envs, "rank": 0, "world_size": 1, "num_processes": 1}
        made.append(make_env(config, **rows))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


@pytest.fixture(scope="module")
def both(make: Callable[..., SimulatedEnv]) -> SimulatedEnv:
    """Two rows of two tasks."""
    return make(2, STACK, HANDOVER)


def played(env: SimulatedEnv, *episodes: Episode) -> list[np.ndarray]:
    """What is observed at the starts and after each of three chunks, and the rewards."""
    observation, _ = env.reset(options={"episodes": list(episodes)})
    found = [observation["states"], *observation["cameras"].values()]
    low, high = env.spec.actions[0].low, env.spec.actions[0].high
    draw = np.random.default_rng(0)
    for _ in range(3):
        actions = draw.uniform(low / 3, high / 3, (1, 5, env.spec.action_dim))
        result = env.chunk_step(actions.astype(np.float32).repeat(len(episodes), axis=0))
        found += [result.observation["states"], result.rewards]
        found += result.observation["cameras"].values()
    return found


def test_starts_and_courses_are_the_same_to_the_bit(
    make: Callable[..., SimulatedEnv], both: SimulatedEnv
) -> None:
    """In another process, in another row, and after other episodes."""
    stack, other, handover = Episode(0, 3), Episode(0, 4), Episode(1, 3)
    first = played(make(2, STACK, HANDOVER), stack, handover)
    played(both, other, stack)
    for a, b in zip(first, played(both, handover, stack), strict=True):
        np.testing.assert_array_equal(a, b[::-1])
    start = played(both, other, other)
    assert not np.array_equal(start[1], first[1]), "another trial, another picture"


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12"])
def test_another_python_gives_the_same_bits(
    make: Callable[..., SimulatedEnv], made_with: Callable[..., str], python: str, version: str
) -> None:
    """Every task, and what its expert does. Pythons are found by their names, as python3.12."""
    if query_interpreter(python).version.startswith(f"{version}."):
        pytest.skip("it is the one that the others are compared with")
    there = made_with(version)
    assert query_interpreter(there).version.startswith(f"{version}.")
    settings = {"action_noise": 0.0, "speed": 1.0, "stride": CHUNK, "seed": 0}
    cameras = RoboTwinConfig().task_config
    cameras.camera.collect_wrist_camera = True
    seen = []
    for one in (python, there):
        env = make(2, *BOXES, python=one, task_config=cameras, simulator_timeout=900)
        found: list[Any] = []
        for task in range(len(BOXES)):
            found += played(env, Episode(task, 3), Episode(task, 1_000_004))
        shown = env.demonstrate([Episode(task, 1) for task in range(len(BOXES))], **settings)
        for each in shown:
            found += [each.success, each.states, each.actions, *each.frames.values()]
        env.close()
        seen.append(found)
    assert len(seen[0]) == len(BOXES) * (4 + 3 * 5 + 6)  # of three cameras
    for here, its in zip(*seen, strict=True):
        np.testing.assert_array_equal(here, its)


def test_the_expert_solves_a_task_and_a_chunk_ends_with_it(both: SimulatedEnv) -> None:
    episode = Episode(0, 1)
    (shown,) = both.demonstrate([episode], action_noise=0.0, speed=1.0, stride=CHUNK, seed=0)
    assert shown.success and shown.frame_steps.tolist() == [*range(0, 200, CHUNK)]
    # eight chunks, of which the last opens the gripper: it counts as open above 0.8, and goes from
    # closed to open in a third of the chunk, 8 actions: open enough in the 7th
    assert len(shown.actions) == 7 * CHUNK + 7
    both.reset(options={"episodes": [episode, episode]})
    for start in range(0, 7 * CHUNK, CHUNK):
        chunk = shown.actions[None, start : start + CHUNK].repeat(2, axis=0)
        result = both.chunk_step(chunk)
        assert not result.rewards.any() and result.valid.all()
    last = np.repeat(shown.actions[None, -1:], CHUNK, axis=1)
    last[0, :7] = shown.actions[-7:]
    result = both.chunk_step(np.concatenate([last, chunk[1:]]))  # the other row holds on
    assert result.rewards.tolist() == [[0.0] * 6 + [1.0] + [0.0] * 18, [0.0] * 25]
    assert result.terminated.argmax(axis=1).tolist() == [6, 0]
    assert result.valid.sum(axis=1).tolist() == [7, 25]


@pytest.mark.long
def test_states_can_be_where_the_hands_are(make: Callable[..., SimulatedEnv]) -> None:
    """Bent as they start, by the lengths of the arm: the shoulder 0.16 m over the base, which is at
    y = -0.42, z = 0.74; the upper arm 1.9 rad up, the fore arm bent down by 2.35, to 0.45 rad
    below level; and the hand by 1.12 more, which is straight down but for 0.001 rad. From wrist to
    fingertips it is 0.17 m, of which 0.12 are left out."""
    env = make(1, STACK, robot_state="end_effector")
    states = env.reset(options={"episodes": [Episode(0, 0)]})[0]["states"][0]
    y = -0.42 + 0.4 * (np.cos(1.9) + np.cos(0.45))
    z = 0.9 + 0.4 * (np.sin(1.9) - np.sin(0.45)) - 0.05
    for side, x in ((0, -0.3), (7, 0.3)):
        np.testing.assert_allclose(states[side : side + 3], [x, y, z], atol=2e-3)
        assert states[side + 4] == pytest.approx(np.pi / 2, abs=2e-2)  # pitch: it points down
        assert states[side + 6] == 1.0


@pytest.mark.long
def test_a_run_trains_a_policy_here_on_a_scene_there(python: str, log_path: Path) -> None:
    """On Ray: demonstrations, a supervised start, an update by GRPO, evaluation; both sides are
    filmed, as in the published recipes. Nobody names `python`, which this file's notes have."""
    words = [
        "env=robotwin_stack_blocks_two",
        "model=openvla_oft_tiny",
        "algorithm=grpo",
        f"runner.logger.log_path={log_path}",
        "runner.logger.experiment_name=run",
        "runner.max_epochs=1",
        "runner.val_check_interval=-1",
        "cluster.backend=ray",
        "cluster.timeouts.ray=280",  # a busy machine starts slowly
        "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
        "sft.enabled=true",
        "sft.max_steps=4",
        "sft.batch_size=8",
        "collect.episodes_per_task=2",
        f"collect.stride={CHUNK}",
        f"actor.model.num_action_chunks={CHUNK}",
        "algorithm.group_size=2",
        "actor.micro_batch_size=2",
        "actor.global_batch_size=2",
    ]
    for side in ("train", "eval"):
        words += [
            f"env.{side}.{key}"
            for key in (
                "stand_ins=true",
                "setting=demo_clean",
                "total_num_envs=2",
                "num_processes=1",
                "video_cfg.save_video=true",
            )
        ]
    words += [
        "env.train.max_episode_steps=50",
        "env.eval.max_episode_steps=50",
        "env.eval.trials_per_task=2",
        "collect.max_episode_steps=200",
    ]
    train.run(assemble(compose(words)))
    films = [log_path / "run" / "video" / name for name in ("train/update_000001.mp4", "eval")]
    assert films[0].stat().st_size and any(films[1].glob("*.mp4"))
    folder = Path(python).parent.parent
    assert f"python: {folder}\n" in (log_path / "run" / "config.yaml").read_text()
    text = (log_path / "run" / "manifest.json").read_text()
    assert "not results on RoboTwin" in text
    versions = json.loads(text)["versions"]
    for side in ("train", "eval"):
        assert versions[f"mplib (env.{side}.python)"] == "0.2.1"
        assert versions[f"numpy (env.{side}.python)"].startswith("1.26.")
        assert versions[f"rlcore-env-robotwin (env.{side}.python)"] == version("rlcore")


@pytest.mark.parametrize(
    "starts",
    [pytest.param(3, marks=pytest.mark.long), pytest.param(20, marks=pytest.mark.exhaustive)],
)
def test_the_expert_solves_four_of_five_starts_of_four_tasks(
    make: Callable[..., SimulatedEnv], starts: int
) -> None:
    """As a table: python benchmarks/env_robotwin.py --expert --python PATH."""
    env = make(1, *BOXES)
    episodes = [Episode(task, trial) for task in range(len(BOXES)) for trial in range(starts)]
    settings = {"action_noise": 0.0, "speed": 1.0, "stride": CHUNK, "seed": 0, "max_steps": 400}
    solved = Counter(
        BOXES[shown.episode.task]
        for shown in env.demonstrate(episodes, **settings)
        if shown.success
    )
    assert sum(solved[task] >= 0.8 * starts for task in BOXES) >= 4, solved


@pytest.mark.long
class TestStandIn(EnvConformance):
    """Short episodes, which the expert does not solve: each check makes processes of its own."""

    name = "robotwin"

    @pytest.fixture(autouse=True)
    def _in_its_interpreter(self, python: str) -> None:
        type(self).settings = {
            "stand_ins": True,
            "tasks": [STACK, HANDOVER],
            "max_episode_steps": 8,
            "num_processes": 1,
            "python": python,
        }
