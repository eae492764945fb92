"""The task on real physics: a scripted pick and place, its reward, states made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from rlcore_env_maniskill.raw import capture

from rlcore.contracts.errors import ConfigError

STILL = np.array([0, 0, 0, 0, 0, 0, 1], np.float32)


def _lay_on_plate(env: Any) -> None:
    """Puts the object 1 mm above the middle of the plate, at rest."""
    state = env.privileged_state()
    target = state["plate"].clone()
    target[0, 2] += (state["plate_size"][0, 2] + state["object_size"][0, 2]) / 2 + 0.001
    env._objects.actors[int(env._choices["object"])].set_pose(_pose(target))


def _pose(raw: torch.Tensor) -> Any:
    from mani_skill.utils.structs.pose import Pose

    return Pose.create(raw)


def test_lying_on_the_plate_is_success_but_no_reward_without_a_grasp(
    scene: Callable[..., Any],
) -> None:
    main = scene("Main")
    main.start(object=2, place=300)
    _, info = main.step(STILL)
    assert not info["success"].item()
    _lay_on_plate(main.env)
    reward, info = main.step(STILL)
    assert info["success"].item()
    assert reward == 0.0


def test_over_the_plate_without_touching_it_is_no_success(scene: Callable[..., Any]) -> None:
    main = scene("Main")
    main.start(object=2, place=300)
    _lay_on_plate(main.env)  # before any step: no force yet
    assert not main.env.evaluate()["success"].item()


def test_the_grasp_reward_is_what_the_potential_gained(scene: Callable[..., Any]) -> None:
    """Flags set by hand; a step without contacts keeps them."""
    main = scene("Main")
    main.start(object=2, place=300)
    env = main.env
    rewards = [main.step(STILL)[0]]
    env._grasped[:] = True
    rewards.append(main.step(STILL)[0])
    env._held[:] = True
    rewards.append(main.step(STILL)[0])
    rewards.append(main.step(STILL)[0])
    _lay_on_plate(env)
    rewards.append(main.step(STILL)[0])
    main.start(object=2, place=300)
    rewards.append(main.step(STILL)[0])
    assert rewards == pytest.approx([0.0, 0.1, 0.1, 0.0, 1.0, 0.0])


def test_leaving_the_plate_takes_the_reward_back(scene: Callable[..., Any]) -> None:
    main = scene("Main")
    start = main.start(object=2, place=300)["object"]
    env = main.env
    env._grasped[:] = True
    main.step(STILL)
    _lay_on_plate(env)
    gained, _ = main.step(STILL)
    env._objects.actors[2].set_pose(_pose(start))
    lost, _ = main.step(STILL)
    assert (gained, lost) == (pytest.approx(1.0), pytest.approx(-1.0))


def test_asking_for_the_state_changes_nothing(scene: Callable[..., Any]) -> None:
    main = scene("Main")
    main.start(object=2, place=300)
    main.env._steps_held[:] = 4
    main.env.evaluate()
    main.env.evaluate()
    assert main.env._steps_held.item() == 4


def _script(env: Any) -> Iterator[np.ndarray]:
    """Above it, down, close, over the plate, down, open. The base is turned half round."""

    def toward(target: torch.Tensor, gripper: float, *, within: float) -> Iterator[np.ndarray]:
        for _ in range(12):
            offset = (target - env.privileged_state()["tcp"][0, :3]).numpy()
            if np.linalg.norm(offset) < within:
                return
            step = np.clip(offset * (-1, -1, 1) / 0.1, -1, 1)
            yield np.array([*step, 0, 0, 0, gripper], np.float32)

    state = env.privileged_state()
    up = torch.tensor([0, 0, 0.1])
    yield from toward(state["object"][0, :3] + up, 1, within=0.02)
    yield from toward(env.privileged_state()["object"][0, :3], 1, within=0.008)
    yield from [np.array([0, 0, 0, 0, 0, 0, -1], np.float32)] * 3
    plate = env.privileged_state()["plate"][0, :3]
    yield from toward(plate + up, -1, within=0.02)
    low = torch.tensor([0, 0, 0.01 + float(state["object_size"][0, 2]) / 2])
    yield from toward(plate + low, -1, within=0.015)
    yield from [STILL] * 3  # lets go


@pytest.mark.parametrize(
    "thing",  # a rod, a box, a cylinder, a ball
    [0, 2, *(pytest.param(thing, marks=pytest.mark.long) for thing in (4, 14))],
)
def test_a_script_puts_things_on_the_plate(thing: int, scene: Callable[..., Any]) -> None:
    main = scene("Main")
    main.start(object=thing, place=31 * thing, yaw=thing % 4)
    rewards = []
    for action in _script(main.env):
        reward, info = main.step(action)
        rewards.append(reward)
        if info["success"].item():
            break
    assert info["success"].item()
    gains = [reward for reward in rewards if abs(reward) > 1e-6]
    assert gains[0] == pytest.approx(0.1)  # the grasp first
    assert sum(gains) == pytest.approx(1.2)  # 0.1 + 0.1 + 1.0
    assert len(rewards) < 80


def test_things_knocked_off_the_table_lie_on_the_floor(scene: Callable[..., Any]) -> None:
    main = scene("Main")
    start = main.start(object=2, place=300)["object"]
    start[0, :2] = torch.tensor([-1.0, 0.0])
    main.env._objects.actors[2].set_pose(_pose(start))
    main.step(*[STILL] * 5)
    assert main.env.privileged_state()["object"][0, 2] == pytest.approx(0.014, abs=5e-3)


@pytest.mark.long
def test_image_modes_show_the_policys_image(scene: Callable[..., Any]) -> None:
    main, plain = scene("Main"), scene("Main", obs_mode="rgb")
    masked = scene("Main", obs_mode="rgb+segmentation")
    options = {"episode_id": main.env.episodes.id_of(object=2, table=3)}
    main.start_at(options["episode_id"])
    for each, keys in ((plain, {"rgb"}), (masked, {"rgb", "segmentation"})):
        observation, _ = each.env.reset(seed=0, options=options)
        data = observation["sensor_data"]["3rd_view_camera"]
        assert set(data) == keys
        np.testing.assert_array_equal(data["rgb"][0].numpy(), main.image())


def test_a_smaller_image_is_the_whole_one_squeezed(scene: Callable[..., Any]) -> None:
    config = scene("Main").env._sensor_configs["3rd_view_camera"]
    assert (config.width, config.height) == (64, 64)
    # 623.588 * 64 / 640 across, 623.588 * 64 / 480 down
    np.testing.assert_allclose(np.diag(config.intrinsic), (62.3588, 83.1451, 1.0), atol=1e-3)


def test_state_observations_know_where_things_are(scene: Callable[..., Any]) -> None:
    # 9 joints, their speeds, three poses of 7
    assert scene("Main", obs_mode="state").env.single_observation_space.shape == (9 + 9 + 21,)


@pytest.mark.long
def test_held_things_are_the_only_ones_of_their_kind(new_scene: Callable[..., Any]) -> None:
    scene = new_scene("Main", hold={"object": 3, "table": 1})
    for trial in (0, 1):
        episode = scene.env.episodes.id_of_trial(trial, split="train")
        scene.start_at(episode)
        chosen = scene.env.episodes.choices(scene.env.episode_id)
        assert (int(chosen["object"]), int(chosen["table"])) == (3, 1)
    name = scene.env.assets.objects[3].key
    actors = set(scene.env.scene.actors)
    assert name in actors
    assert not actors & {each.key for each in scene.env.assets.objects} - {name}


def test_a_second_thing_is_another_one_beside_a_held_one(new_scene: Callable[..., Any]) -> None:
    scene = new_scene("MultiCarrot", hold={"object": 17})
    scene.start_at(scene.env.episodes.id_of_trial(0, split="train"))
    assert {each.key for each in scene.env.assets.objects[16:]} <= set(scene.env.scene.actors)


def test_another_robot_is_refused(refused, new_scene: Callable[..., Any]) -> None:
    with refused(ConfigError, "panda_wristcam", "fetch"):
        new_scene("Main", robot_uids="fetch")


@pytest.mark.long
def test_a_camera_in_the_hand_changes_no_start_and_sees_the_object(
    scene: Callable[..., Any], new_scene: Callable[..., Any]
) -> None:
    seeing = new_scene("Main", robot_uids="panda_wristcam")
    first, second = (each.start(object=0, place=300) for each in (scene("Main"), seeing))
    for name in ("object", "plate"):
        assert torch.equal(first[name], second[name])
    torch.testing.assert_close(first["tcp"], second["tcp"])
    seen = capture(seeing.env, {"hand": "hand_camera"})["hand"]
    assert seen.numpy().std() > 10
