"""Putting an image together, on images of a few pixels."""

from __future__ import annotations

import torch
from rlcore_env_maniskill.put_on_plate import overlay

DRAWN = torch.tensor([[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0]]).bool()


def test_the_picture_fills_what_was_not_drawn() -> None:
    image = overlay.behind(_plain(100), DRAWN, _plain(7))
    assert image[..., 0].tolist() == [[7, 7, 7, 7], [7, 100, 100, 7], [7, 7, 100, 7]]


def test_a_texture_on_the_drawn_part() -> None:
    # 0.7 * 100 + 0.3 * 200 = 130, only where drawn
    image = overlay.texture_on_drawn(_plain(100), DRAWN, _plain(200), 0.3)
    torch.testing.assert_close(image[DRAWN], torch.full((3, 3), 130.0))
    assert (image[~DRAWN] == 100).all()


def test_the_texture_is_stretched_over_the_box_of_what_was_drawn() -> None:
    # left half 0, right half 200: the box has two columns, the second is all 200
    texture = _plain(0)
    texture[:, 2:] = 200
    image = overlay.texture_on_drawn(_plain(100), DRAWN, texture, 1.0)
    assert image[1, 1, 0] == 0
    assert image[1, 2, 0] == image[2, 2, 0] == 200


def test_a_texture_on_everything_moves_with_what_was_drawn() -> None:
    # box rows 1-2, columns 1-2: its middle is (1, 1), the crop starts there
    texture = torch.arange(6.0)[:, None, None].expand(6, 8, 3) * 10
    image = overlay.texture_on_all(_plain(100), DRAWN, texture, 0.5)
    assert image[:, 0, 0].tolist() == [55.0, 60.0, 65.0]
    lower = torch.zeros(3, 4).bool()
    lower[2, 3] = True
    image = overlay.texture_on_all(_plain(100), lower, texture, 0.5)
    assert image[:, 0, 0].tolist() == [60.0, 65.0, 70.0]


def test_nothing_drawn_is_no_special_case() -> None:
    nothing = torch.zeros(3, 4).bool()
    assert (overlay.texture_on_drawn(_plain(100), nothing, _plain(200), 0.3) == 100).all()
    texture = torch.full((6, 8, 3), 200.0)
    assert (overlay.texture_on_all(_plain(100), nothing, texture, 0.5) == 150).all()


def _plain(value: float) -> torch.Tensor:
    return torch.full((3, 4, 3), float(value))
