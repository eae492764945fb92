"""The episode id alone fixes the start, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rlcore_env_maniskill.put_on_plate.variants import VARIANTS

PUSHING_DOWN = np.array([0, 0, -0.5, 0, 0, 0, 0])


def _play(scene: Any, episode_id: int, *, steps: int = 6) -> tuple[list[torch.Tensor], np.ndarray]:
    """States of the start and the steps after it, and the first image."""
    scene.start_at(episode_id)
    states, image = [scene.state()], scene.image()
    random = np.random.default_rng(5)
    for _ in range(steps):
        scene.step(random.uniform(-1, 1, 7).astype(np.float32))
        states.append(scene.state())
    return states, image


@pytest.mark.long
@pytest.mark.parametrize(
    "variant",
    ["Main", *(pytest.param(name, marks=pytest.mark.long) for name in ("MultiPlate", "EEPose"))],
)
def test_same_id_same_start_whatever_happened_before(
    variant: str, scene: Callable[..., Any], new_scene: Callable[..., Any]
) -> None:
    used, fresh = scene(variant), new_scene(variant)
    trial = used.env.episodes.id_of_trial(7, split="train")
    random = np.random.default_rng(1)
    states, image = _play(fresh, trial)
    for other in range(4):
        used.start_at(used.env.episodes.id_of_trial(other, split="train"))
        for _ in range(int(random.integers(1, 20))):  # into the table, things knocked over
            used.step((random.uniform(-1, 1, 7) + PUSHING_DOWN).astype(np.float32))
        again, image_again = _play(used, trial)
        assert all(torch.equal(a, b) for a, b in zip(states, again, strict=True))
        np.testing.assert_array_equal(image, image_again)


@pytest.mark.long
def test_other_ids_start_otherwise(scene: Callable[..., Any]) -> None:
    main = scene("Main")
    (first, _), (second, _) = (_play(main, trial, steps=0) for trial in (0, 1))
    assert not torch.equal(first[0], second[0])


def test_a_seed_draws_an_episode_where_no_id_is_given(scene: Callable[..., Any]) -> None:
    env = scene("Main").env
    drawn = []
    for seed in (1, 2, 1):
        env.reset(seed=seed)
        drawn.append(int(env.episode_id[0]))
    assert drawn[0] == drawn[2] != drawn[1]


@pytest.mark.quick(2)
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_nothing_starts_in_the_table(variant: str, scene: Callable[..., Any]) -> None:
    state = scene(variant).start()
    for name in ("object", "plate"):
        bottom = state[name][0, 2] - state[f"{name}_size"][0, 2] / 2
        assert bottom >= 0.865  # the older task puts its plate a little lower than ours is thick
