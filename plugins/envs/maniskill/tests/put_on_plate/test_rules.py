"""Success and reward on states made by hand."""

from __future__ import annotations

import math

import pytest
import torch
from rlcore_env_maniskill.put_on_plate.rules import (
    SuccessRule,
    grasp_potential,
    world_half_extents,
)

# an object of 4 x 4 x 3 cm, a plate of 10 x 8 x 1 cm
OBJECT_HALF, PLATE_HALF = (0.02, 0.02, 0.015), (0.05, 0.04, 0.005)


@pytest.mark.parametrize(
    ("offset", "force", "expected"),
    [
        ((0.0, 0.0, 0.02), 0.1, True),
        ((0.059, 0.0, 0.02), 0.1, True),  # longest half 0.05 + 0.01
        ((0.061, 0.0, 0.02), 0.1, False),
        ((0.0, 0.059, 0.02), 0.1, True),  # round, although the plate is narrower there
        ((0.045, 0.045, 0.02), 0.1, False),  # 0.0636
        ((0.0, 0.0, 0.069), 0.1, True),  # 0.005 + 0.015 + 0.05 = 0.07
        ((0.0, 0.0, 0.071), 0.1, False),
        ((0.0, 0.0, -0.001), 0.1, False),
        ((0.0, 0.0, 0.02), 0.031, True),
        ((0.0, 0.0, 0.02), 0.03, False),  # above, not at
        ((0.0, 0.0, 0.02), 0.0, False),
    ],
)
def test_when_an_object_lies_on_a_plate(
    offset: tuple[float, ...], force: float, expected: bool
) -> None:
    result = SuccessRule().on_plate(*_rows(offset), torch.tensor([force]))
    assert result.tolist() == [expected]


def test_the_older_task_measures_the_diagonal() -> None:
    rule = SuccessRule("diagonal", margin=0.003, height_margin=0.02, force=0.05)
    # half diagonal (0.05, 0.04): 0.0640; + 0.003 = 0.0670
    near, far = (rule.on_plate(*_rows((x, 0, 0.02)), torch.tensor([0.1])) for x in (0.066, 0.068))
    assert (near.item(), far.item()) == (True, False)


def test_rows_are_judged_apart() -> None:
    rows = [_rows(offset) for offset in ((0.0, 0.0, 0.02), (0.2, 0.0, 0.02))]
    offset, object_half, plate_half = (torch.cat(each) for each in zip(*rows, strict=True))
    force = torch.tensor([0.1, 0.1])
    assert SuccessRule().on_plate(offset, object_half, plate_half, force).tolist() == [True, False]


def test_a_box_turned_by_an_eighth_reaches_further() -> None:
    # 6 x 2 cm turned by 45 degrees: (3 + 1) / sqrt(2) cm both ways; its height stays
    half = math.pi / 8
    quaternion = torch.tensor([[math.cos(half), 0, 0, math.sin(half)]])
    turned = world_half_extents(torch.tensor([[0.06, 0.02, 0.03]]), quaternion)
    expected = torch.tensor([[0.04 / 2**0.5, 0.04 / 2**0.5, 0.015]])
    torch.testing.assert_close(turned, expected)


def test_the_potential_of_a_grasp() -> None:
    grasped = torch.tensor([False, True, True, True, False])
    held = torch.tensor([False, False, True, True, False])
    success = torch.tensor([False, False, False, True, True])
    # success without a grasp, e.g. pushed onto the plate, is worth nothing
    expected = torch.tensor([0.0, 0.1, 0.2, 1.2, 0.0])
    torch.testing.assert_close(grasp_potential(grasped, held, success), expected)


def _rows(offset: tuple[float, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.tensor([offset]), torch.tensor([OBJECT_HALF]), torch.tensor([PLATE_HALF])
