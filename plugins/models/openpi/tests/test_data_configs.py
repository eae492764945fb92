"""Robots' transforms worked by hand, and resizing."""

from __future__ import annotations

import numpy as np
import pytest
from rlcore_model_openpi.data_configs import (
    DATA_CONFIGS,
    aloha_actions_from_pi,
    aloha_actions_to_pi,
    aloha_state_to_pi,
    data_config,
)
from rlcore_model_openpi.images import resize_with_pad

from rlcore.contracts.errors import ConfigError


def test_unknown_names_list_the_choices(refused):
    with refused(ConfigError, "pi05_libero", "pi0_metaworld"):
        data_config("pi05_libreo")


@pytest.mark.parametrize(
    ("name", "horizon", "pi05", "discrete"),
    [
        ("pi0_metaworld", 5, False, False),
        ("pi05_metaworld", 5, True, False),
        ("pi0_libero", 50, False, False),
        ("pi05_libero", 10, True, False),
        ("pi05_maniskill", 10, True, False),
        ("pi0_aloha_robotwin", 50, False, False),
        ("pi05_aloha_robotwin", 50, True, True),
    ],
)
def test_published_facts(name, horizon, pi05, discrete):
    config = DATA_CONFIGS[name]
    assert (config.action_horizon, config.pi05, config.discrete_state_input) == (
        horizon,
        pi05,
        discrete,
    )


def test_metaworld_passes_everything_and_slices():
    config = DATA_CONFIGS["pi0_metaworld"]
    states = np.array([[1.0, 2.0, 3.0, 4.0]])
    actions = np.arange(16.0).reshape(1, 2, 8)
    np.testing.assert_array_equal(config.to_model_state(states), states)
    np.testing.assert_array_equal(config.to_model_actions(actions, states), actions)
    env = config.to_env_actions(actions, states, 4)
    np.testing.assert_array_equal(env, [[[0, 1, 2, 3], [8, 9, 10, 11]]])


def test_libero_pi0_takes_six_entries_relative_to_the_state():
    config = DATA_CONFIGS["pi0_libero"]
    states = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]])
    actions = np.full((1, 2, 7), 10.0)
    # 10 - (1..6), and the gripper as it is
    expected = [[[9, 8, 7, 6, 5, 4, 10]] * 2]
    delta = config.to_model_actions(actions, states)
    np.testing.assert_array_equal(delta, expected)
    padded = np.pad(delta, ((0, 0), (0, 0), (0, 25)), constant_values=99)
    np.testing.assert_array_equal(config.to_env_actions(padded, states, 7), actions)
    assert DATA_CONFIGS["pi05_libero"].delta_mask == ()


def test_aloha_pi0_delta_leaves_both_grippers():
    config = DATA_CONFIGS["pi0_aloha_robotwin"]
    states = np.arange(14.0)[None]
    delta = config.to_model_actions(np.zeros((1, 1, 14)), states)
    # - state for joints 0-5 and 7-12; entries 6 and 13 stay 0
    expected = [0, -1, -2, -3, -4, -5, 0, -7, -8, -9, -10, -11, -12, 0]
    np.testing.assert_array_equal(delta[0, 0], expected)


def test_aloha_adapted_state_by_hand():
    states = np.ones((1, 14))
    adapted = aloha_state_to_pi(states)
    # Joints 1, 2, 8, 9 change sign. Gripper 1.0 -> finger at 0.058 m; sine =
    # (0.022^2 + 0.058^2 - 0.036^2) / (2 * 0.022 * 0.058) = 0.002552 / 0.002552 = 1;
    # angle pi/2; (1.5707963 - 0.5476) / (1.6296 - 0.5476) = 0.9456528
    np.testing.assert_array_equal(adapted[0, :6], [1, -1, -1, 1, 1, 1])
    np.testing.assert_array_equal(adapted[0, 7:13], [1, -1, -1, 1, 1, 1])
    np.testing.assert_allclose(adapted[0, [6, 13]], 0.9456528, atol=1e-6)
    assert (states == 1).all()  # the input is left alone


def test_aloha_adapted_actions_by_hand():
    actions = np.full((1, 2, 14), 0.5)
    out = aloha_actions_from_pi(actions)
    # Gripper: (0.5 + 0.5476 + 0.6213) / (1.4910 + 0.6213) = 1.6689 / 2.1123 = 0.7900866
    np.testing.assert_allclose(out[..., [6, 13]], 0.7900866, atol=1e-6)
    np.testing.assert_array_equal(out[0, 0, :6], [0.5, -0.5, -0.5, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(aloha_actions_to_pi(out), actions, atol=1e-12)


def test_aloha_pi05_order_is_encode_then_delta():
    config = DATA_CONFIGS["pi05_aloha_robotwin"]
    rng = np.random.default_rng(0)
    states = config.to_model_state(rng.uniform(0, 1, size=(2, 14)))
    actions = rng.uniform(0, 1, size=(2, 3, 14))
    model = config.to_model_actions(actions, states)
    # joint 1: flipped action minus the (already flipped) state; gripper absolute
    np.testing.assert_allclose(model[..., 1], -actions[..., 1] - states[:, None, 1])
    gripper = actions[..., 6] * 2.1123 - 0.6213 - 0.5476
    np.testing.assert_allclose(model[..., 6], gripper, atol=1e-12)
    np.testing.assert_allclose(config.to_env_actions(model, states, 14), actions, atol=1e-12)


def test_resize_keeps_the_aspect_and_pads_black():
    frames = np.full((2, 100, 200, 3), 200, dtype=np.uint8)
    frames[1] = 50
    out = resize_with_pad(frames, 64, 64)
    # ratio 200 / 64 = 3.125: 100 rows become 32, padded by 16 above and below
    assert out.shape == (2, 64, 64, 3) and out.dtype == np.uint8
    assert (out[:, :16] == 0).all() and (out[:, 48:] == 0).all()
    assert (out[0, 16:48] == 200).all() and (out[1, 16:48] == 50).all()


def test_odd_padding_goes_below():
    # 60 x 80 -> ratio 1.25 -> 48 x 64 in 64: 8 and 8; 62 x 80 -> int(49.6) = 49: 7 above, 8 below
    out = resize_with_pad(np.full((1, 62, 80, 3), 9, dtype=np.uint8), 64, 64)
    rows = np.flatnonzero(out[0, :, 0, 0])
    assert (rows[0], rows[-1]) == (7, 55)


def test_the_right_size_is_not_touched():
    frames = np.zeros((1, 64, 64, 3), dtype=np.uint8)
    assert resize_with_pad(frames, 64, 64) is frames


def test_enlarging_interpolates():
    frames = np.zeros((1, 2, 2, 3), dtype=np.uint8)
    frames[0, :, 1] = 100
    out = resize_with_pad(frames, 4, 4)[0, 0, :, 0]
    # bilinear between centres 0.5 and 1.5 at 0.25, 0.75, 1.25, 1.75: 0, 25, 75, 100
    assert out.tolist() == [0, 25, 75, 100]


def test_a_range_is_converted_and_relative_entries_are_centred():
    """pi0_libero takes six entries relative to the state, so 0 to 512 means 256 either way."""
    low, high = DATA_CONFIGS["pi0_libero"].action_range(np.zeros(7), np.array([512.0] * 6 + [1.0]))
    assert low.tolist() == [-256] * 6 + [0]
    assert high.tolist() == [256] * 6 + [1]


def test_a_flipped_joint_has_a_flipped_range():
    """ALOHA's joint 1 turns the other way: [-1, 3] is [-3, 1], half of which is 2 either way. A
    gripper's 0 to 1 is -0.6213 - 0.5476 to 1.4910 - 0.5476."""
    low, high = DATA_CONFIGS["pi05_aloha_robotwin"].action_range(
        np.array([-1.0, -1, -1, -1, -1, -1, 0] * 2), np.array([3.0, 3, 3, 3, 3, 3, 1] * 2)
    )
    np.testing.assert_allclose(low, [-2, -2, -2, -2, -2, -2, -1.1689] * 2)
    np.testing.assert_allclose(high, [2, 2, 2, 2, 2, 2, 0.9434] * 2)
