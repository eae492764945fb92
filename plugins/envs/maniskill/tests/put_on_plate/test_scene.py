"""Things in stock, in a batch of rows: what the GPU backend does, on recorded calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rlcore_env_maniskill.put_on_plate.scene import Stock

UPRIGHT = torch.tensor([[1.0, 0, 0, 0]])


class Recorded:
    """An actor that remembers where it was put."""

    device = torch.device("cpu")
    scene = SimpleNamespace(gpu_sim_enabled=True)

    def __init__(self, rows: int) -> None:
        self.pose = SimpleNamespace(raw_pose=torch.zeros(rows, 7))
        self.linear_velocity = self.angular_velocity = torch.ones(rows, 3)

    def set_pose(self, pose: Any) -> None:
        self.pose = SimpleNamespace(raw_pose=pose.raw_pose)

    def set_linear_velocity(self, value: torch.Tensor) -> None:
        self.linear_velocity = value

    set_angular_velocity = set_linear_velocity

    @property
    def at(self) -> list[list[float]]:
        return self.pose.raw_pose[:, :3].tolist()


def _close(rows: list[list[float]]) -> list[Any]:
    return [pytest.approx(row) for row in rows]


@pytest.fixture
def stock() -> Stock:
    """Choices 16, 17 and 18 in three rows; the last one is 6 cm deep."""
    return Stock(
        actors=tuple(Recorded(3) for _ in range(3)),
        first=16,
        sizes=torch.tensor([[0.02, 0.02, 0.02], [0.04, 0.04, 0.04], [0.02, 0.02, 0.12]]),
        depths=(0.01, 0.02, 0.06),
        waiting=torch.tensor([[2.0, 0.0, 1.0], [2.0, 0.3, 1.0], [2.0, 0.6, 1.0]]),
    )


def test_each_row_gets_its_own_and_the_others_wait(stock: Stock) -> None:
    places = torch.tensor([[[0.1, 0.0]], [[0.2, 0.0]], [[0.3, 0.0]]])
    chosen = torch.tensor([16, 18, 16])
    stock.place({0: (chosen, UPRIGHT.expand(3, 4))}, places, 0.9)
    first, second, third = (actor.at for actor in stock.actors)
    assert first == _close([[0.1, 0, 0.9], [2, 0, 1], [0.3, 0, 0.9]])
    assert second == _close([[2, 0.3, 1]] * 3)
    # 0.87 m of table + 0.06 m + 2 mm: at 0.90 m it would stand in the table
    assert third == _close([[2, 0.6, 1], [0.2, 0, 0.932], [2, 0.6, 1]])


def test_a_second_one_stands_at_its_own_slot(stock: Stock) -> None:
    places = torch.tensor([[[0.1, 0.0], [9.0, 9.0], [0.5, 0.0]]])
    wanted = {0: (torch.tensor([16]), UPRIGHT), 2: (torch.tensor([17]), UPRIGHT)}
    stock.place(wanted, places, 0.9)
    assert stock.actors[0].at == _close([[0.1, 0, 0.9]])
    assert stock.actors[1].at == _close([[0.5, 0, 0.9]])


def test_a_value_per_row_is_that_of_its_own_choice(stock: Stock) -> None:
    for number, actor in enumerate(stock.actors):
        actor.pose.raw_pose += number
    chosen = torch.tensor([18, 16, 17])
    values = stock.per_row(chosen, lambda actor: actor.pose.raw_pose)
    assert values[:, 0].tolist() == [2, 0, 1]
    assert stock.per_row(chosen, lambda actor: actor.pose.raw_pose[:, 0]).tolist() == [2, 0, 1]
    assert stock.sizes_of(chosen)[:, 2].tolist() == pytest.approx([0.12, 0.02, 0.04])


def test_moving_some_rows_leaves_the_others(stock: Stock) -> None:
    rows = torch.tensor([True, False, True])
    chosen = torch.tensor([16, 16, 17])
    places = torch.tensor([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0]])
    stock.move(rows, chosen, places, 0.9, UPRIGHT.expand(3, 4))
    assert stock.actors[0].at == _close([[0.1, 0, 0.9], [0, 0, 0], [0, 0, 0]])
    assert stock.actors[1].at == _close([[0, 0, 0], [0, 0, 0], [0.3, 0, 0.9]])
    assert stock.actors[0].linear_velocity[:, 0].tolist() == [0, 1, 1]
