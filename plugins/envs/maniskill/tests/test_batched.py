"""The batched env. A GPU is not at hand here: one scene on the CPU through the same class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from maniskill_cases import CAMERA, PICK, small_config
from rlcore_env_maniskill.batched import BatchedEnv
from rlcore_env_maniskill.simulator import Simulator
from rlcore_env_maniskill.spec import env_spec
from rlcore_env_maniskill.tasks import MAIN, TABLETOP

from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import Episode

pytestmark = pytest.mark.usefixtures("vulkan")


def batched(**settings: object) -> BatchedEnv:
    config = small_config(**settings)
    return BatchedEnv(config, env_spec(config), num_envs=1, first_slot=0)


@pytest.fixture
def env() -> Iterator[BatchedEnv]:
    env = batched(tasks=[PICK], max_episode_steps=6)
    yield env
    env.close()


ACTIONS = np.random.default_rng(1).uniform(-1, 1, (1, 8, 7)).astype(np.float32)


@pytest.mark.long
def test_a_batched_scene_equals_the_simulator_of_one_scene(env: BatchedEnv) -> None:
    start, _ = env.reset(options={"episodes": [Episode(0, 3)]})
    result = env.chunk_step(ACTIONS[:, :4])
    alone = Simulator(small_config(tasks=[PICK]), PICK)
    assert alone.start(Episode(0, 3)) == start["task_descriptions"][0]
    # a stored state is one in float32, set again
    np.testing.assert_allclose(start["states"][0], alone.states, atol=1e-5)
    for action in ACTIONS[0, :4]:
        alone.step(action)
    np.testing.assert_allclose(result.observation["states"][0], alone.states, atol=1e-3)
    frame = {CAMERA: np.zeros((32, 32, 3), dtype=np.uint8)}
    alone.draw(frame)
    assert np.abs(result.observation["cameras"][CAMERA][0].astype(int) - frame[CAMERA]).mean() < 1
    alone.close()


@pytest.mark.long
def test_the_final_observation_is_that_of_the_end(env: BatchedEnv) -> None:
    env.reset(options={"episodes": [Episode(0, 3)]})
    at_end = env.chunk_step(ACTIONS[:, :6]).observation
    env.reset(options={"episodes": [Episode(0, 3)]})
    past_it = env.chunk_step(ACTIONS).observation
    np.testing.assert_allclose(past_it["states"], at_end["states"], atol=1e-4)
    np.testing.assert_array_equal(past_it["cameras"][CAMERA], at_end["cameras"][CAMERA])


@pytest.mark.long
def test_tensors_are_written_to_and_observations_are_copies(env: BatchedEnv) -> None:
    """Where the tensors lie: test_batched_rows."""
    observation, _ = env.reset(options={"episodes": [Episode(0, 3)]})
    before = {name: tensor.data_ptr() for name, tensor in env.tensors.items()}
    old_states, old_frame = observation["states"].copy(), observation["cameras"][CAMERA].copy()
    later = env.chunk_step(ACTIONS[:, :4]).observation
    assert {name: tensor.data_ptr() for name, tensor in env.tensors.items()} == before
    np.testing.assert_array_equal(env.tensors["states"].numpy(), later["states"])
    np.testing.assert_array_equal(env.tensors[CAMERA].numpy(), later["cameras"][CAMERA])
    assert (later["states"] != old_states).any()
    assert (later["cameras"][CAMERA] != old_frame).any()
    np.testing.assert_array_equal(observation["states"], old_states)
    np.testing.assert_array_equal(observation["cameras"][CAMERA], old_frame)


@pytest.mark.long
def test_it_goes_on_after_suspension_as_if_nothing_had_been() -> None:
    """With a controller that has a state of its own, and a task with a memory of its own."""
    for settings in (
        {"tasks": [PICK], "control_mode": "pd_ee_target_delta_pose"},
        {"tasks": [MAIN], "reward": "grasp"},
    ):
        env = batched(**settings)
        ends = []
        for suspend in (False, True):
            env.reset(options={"episodes": [Episode(0, 3)]})
            env.chunk_step(ACTIONS[:, :3])
            if suspend:
                env.suspend()
                env.resume()
            ends.append(env.chunk_step(ACTIONS[:, 3:]))
        # poses and velocities are the same, but contacts begin anew: a fifth of a millimetre at the
        # fingers here, of the 40 that are 1
        np.testing.assert_allclose(
            ends[1].observation["states"], ends[0].observation["states"], atol=1e-2
        )
        np.testing.assert_allclose(ends[1].rewards, ends[0].rewards, atol=1e-3)
        assert ends[1].observation["task_descriptions"] == ends[0].observation["task_descriptions"]
        env.close()


@pytest.mark.long
@pytest.mark.parametrize("task", [name for name in TABLETOP if TABLETOP[name].starts_are_states])
def test_a_stored_state_is_all_of_a_start(task: str) -> None:
    """Observation and what the task says of itself, after a start of another trial."""
    settings = {"tasks": [task], "obs_mode": "state"}
    alone = Simulator(small_config(**settings), task)
    alone.start(Episode(0, 3))
    env = batched(**settings)
    env.reset(options={"episodes": [Episode(0, 7)]})
    other = env.tensors["states"].numpy().copy()
    env.reset(options={"episodes": [Episode(0, 3)]})
    restored = env.tensors["states"].numpy()
    np.testing.assert_allclose(restored[0], alone.states, atol=1e-5)
    assert np.abs(restored - other).max() > 1e-3
    here, there = env._raw.get_info(), alone.env.get_info()
    for name in here:
        np.testing.assert_allclose(here[name], there[name], atol=1e-5, err_msg=name)
    alone.close()
    env.close()


@pytest.mark.long
def test_an_expert_is_refused_with_the_backend_that_has_one(refused, env: BatchedEnv) -> None:
    with refused(UserError, "sim_backend=cpu"):
        env.demonstrate([], action_noise=0.0, speed=1.0, stride=1, seed=0)
