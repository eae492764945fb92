"""Encoder, critics and ranges against numbers worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rlcore_off_policy.critic import ActionRange, Critic, layers, least_of_two
from rlcore_off_policy.encoder import SHIFT, Encoder, _pixels, draw_shift
from rlcore_off_policy.sizes import (
    MOST_IMAGES,
    MOST_NUMBERS,
    actor_parameters,
    critic_parameters,
)

from rlcore.contracts.replay_batches import mixture
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import ActionChannel, EnvSpec

INPUTS = {
    "images": np.zeros((1, 2, 64, 64, 3), np.uint8),
    "wide": np.zeros((1, 90, 120, 3), np.uint8),
    "state": np.zeros((1, 5), np.float32),
    "tokens": np.zeros((1, 7), np.int32),
    "token_mask": np.zeros((1, 7), bool),
    "elapsed": np.zeros(1, np.float32),
    "none": np.zeros((1, 0, 0, 3), np.uint8),
}


def drawn(rows: int) -> dict[str, torch.Tensor]:
    random = np.random.default_rng(0)
    kinds = {"u": lambda shape: random.integers(0, 256, shape, dtype=np.uint8)}
    kinds["i"] = lambda shape: random.integers(0, 300_000, shape, dtype=np.int32)
    kinds["f"] = lambda shape: random.standard_normal(shape, dtype=np.float32)
    kinds["b"] = lambda shape: random.random(shape) < 0.5
    return {
        name: torch.from_numpy(kinds[one.dtype.kind]((rows, *one.shape[1:])))
        for name, one in INPUTS.items()
    }


def test_features_follow_from_images_states_and_words_alone():
    encoder, seen = Encoder(INPUTS), drawn(3)
    features = encoder(seen)
    assert features.shape == (3, encoder.size) and encoder.size == 3 * 64 + 16
    for name in ("images", "wide", "state", "tokens"):
        other = {**seen, name: drawn(6)[name][3:]}
        assert not torch.equal(encoder(other), features), name
    for name in ("token_mask", "elapsed"):
        assert torch.equal(encoder({**seen, name: seen[name].flip(0)}), features)


def test_single_floats_are_features_on_request():
    torch.manual_seed(0)
    without = Encoder(INPUTS)
    torch.manual_seed(0)
    encoder, seen = Encoder(INPUTS, scalars=True), drawn(3)
    assert encoder.scalars == ["elapsed"] and encoder.size == without.size + 1
    expected = torch.cat([without(seen), seen["elapsed"][:, None]], dim=1)
    assert torch.equal(encoder(seen), expected)


def test_a_row_has_the_same_features_beside_any_others():
    critic, seen = Critic(INPUTS, 4, heads=2), drawn(8)
    actions = torch.randn(8, 4)
    one, other = torch.tensor([0, 1, 2, 3]), torch.tensor([6, 0, 5, 2])
    with torch.no_grad():
        first, second = (
            critic.values(critic.features({n: x[at] for n, x in seen.items()}), actions[at])
            for at in (one, other)
        )
    assert torch.equal(first[:, [0, 2]], second[:, [1, 3]])


def test_a_shift_moves_an_image_and_repeats_its_edge():
    image = torch.arange(64, dtype=torch.uint8).repeat(64, 1)[None, ..., None].expand(1, 64, 64, 3)
    still = _pixels(image, torch.tensor([[SHIFT, SHIFT]]))
    assert torch.equal(still, _pixels(image, None))
    moved = _pixels(image, torch.tensor([[SHIFT, SHIFT + 3]]))
    # three pixels to the right: column j shows what stood at j + 3, the last ones the edge, 63
    across = ((moved[0, 0, 7] + 0.5) * 255).round().tolist()
    assert across == [*range(3, 64), 63, 63, 63]


@pytest.mark.parametrize(("height", "width"), [(64, 40), (100, 128)])
def test_shifts_equal_a_loop_over_pixels(height, width):
    """Pixel (i, j) of a shifted image is (i + y, j + x) of the image, at its edge the last one."""
    images = torch.randint(0, 256, (4, height, width, 3), dtype=torch.uint8)
    shift = torch.tensor([[0, 2 * SHIFT], [SHIFT, 1], [2 * SHIFT, 0], [3, 7]])
    still = _pixels(images, None)
    moved = _pixels(images, shift)
    rows, columns = still.shape[2:]
    for image, (y, x) in enumerate((shift - SHIFT).tolist()):
        for i in range(rows):
            above = min(max(i + y, 0), rows - 1)
            across = [min(max(j + x, 0), columns - 1) for j in range(columns)]
            assert torch.equal(moved[image, :, i], still[image, :, above][:, across])


def test_shifts_are_keyed_and_within_bounds():
    keys = RowKeys(tuple(("row", row) for row in range(200)))
    shift = draw_shift(keys, "s")
    assert shift.min() == 0 and shift.max() == 2 * SHIFT
    assert torch.equal(draw_shift(RowKeys(keys.keys[:3]), "s"), shift[:3])


def test_the_least_of_two_heads():
    values = torch.tensor([[1.0, 5.0], [2.0, 4.0]])
    keys = RowKeys((("a",), ("b",)))
    assert least_of_two(values, keys).tolist() == [1.0, 4.0]
    assert least_of_two(values[:1], keys).tolist() == [1.0, 5.0]
    many = torch.arange(5.0)[:, None].expand(5, 400)
    found = least_of_two(many, RowKeys(tuple(("r", row) for row in range(400))))
    # the smaller of two different heads of five: 0 in 4 of 10 pairs, 4 never
    assert found.max() == 3.0 and 0.3 < (found == 0).float().mean() < 0.5


def test_ranges_of_entries():
    channels = (ActionChannel("ee_delta_position", 1, -2.0, 4.0), ActionChannel("gripper", 1))
    env = EnvSpec("e", ("t",), ("t",), range(1), range(1, 2), (), (), channels, 9)
    units = ActionRange(env).units(torch.tensor([[1.0, 0.5], [9.0, -1.0]]))
    assert units.tolist() == [[0.0, 0.5], [1.0, -1.0]]
    assert ActionRange(env).of_env(units).tolist() == [[1.0, 0.5], [4.0, -1.0]]


def test_a_critic_begins_with_what_it_expects():
    critic = Critic({"state": np.zeros((1, 5), np.float32)}, 4, heads=3, initial=1.0)
    with torch.no_grad():
        values = critic.values(critic.features({"state": torch.randn(50, 5)}), torch.zeros(50, 4))
    assert values.shape == (3, 50) and (values.mean() - 1.0).abs() < 0.5


@pytest.mark.parametrize("width", [64, 256])
def test_the_bound_of_the_parameters_holds_for_the_largest_inputs(width):
    inputs = {
        **{f"image{n}": np.zeros((1, 64, 64, 3), np.uint8) for n in range(MOST_IMAGES)},
        "state": np.zeros((1, MOST_NUMBERS), np.float32),
        "words": np.zeros((1, 7), np.int32),
    }
    torch.manual_seed(0)
    critic = Critic(inputs, MOST_NUMBERS, heads=3, hidden=(8, 5), width=width)
    count = sum(parameter.numel() for parameter in critic.parameters())
    assert critic_parameters(3, (8, 5), width) == count
    actor = layers(critic.encoder.size + MOST_NUMBERS, (8, 5), 2 * MOST_NUMBERS)
    assert actor_parameters((8, 5), width) == sum(p.numel() for p in actor.parameters())


@pytest.mark.parametrize(
    ("size", "share", "successes", "expected"),
    [
        (8, 0.125, 5, {"demonstrations": 1, "successes": 7}),
        (4, 0.125, 5, {"demonstrations": 1, "successes": 3}),  # not 0, to which a half is rounded
        (4, 0.9, 5, {"demonstrations": 3, "successes": 1}),
        (4, 0.125, 0, {"demonstrations": 4}),
        (4, 0.0, 5, {"successes": 4}),
        (4, 0.0, 0, {}),
        (1, 0.125, 5, {"successes": 1}),
        (1, 0.9, 5, {"demonstrations": 1}),
    ],
)
def test_a_batch_has_rows_of_each_kind_with_a_share(size, share, successes, expected):
    replay = SimpleNamespace(count={"demonstrations": 9, "successes": successes}.get)
    shares = {"demonstrations": share, "successes": 1.0 - share}
    assert mixture(replay, size, shares) == expected
