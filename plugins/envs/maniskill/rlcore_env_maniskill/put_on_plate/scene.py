"""Parts of a put-on-plate scene: lights, objects and plates, and the shelf for unused ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sapien
import torch
from mani_skill.utils.structs.pose import Pose
from sapien.physx import PhysxMaterial

from rlcore_env_maniskill.put_on_plate.assets import Model
from rlcore_env_maniskill.put_on_plate.episodes import Factor
from rlcore_env_maniskill.put_on_plate.variants import TABLE_HEIGHT

# unused bodies are far behind the camera, objects in one lane and plates in another; m
LANES = (2.0, 3.0)
LANE_STEP = 0.3
SHELF_TOP = 0.93
SCATTER_STEP = 1.0
GAP = 0.002  # m between the table and the lowest start of a body


@dataclass(frozen=True)
class Stock:
    """All objects, or all plates, that an episode may use. All of them are in every scene.

    Args:
        actors: ManiSkill actors in the order of their numbers.
        first: number of `actors[0]`, as a value of its factor.
        sizes: edge lengths of their bounding boxes in their own axes, m `[N, 3]`.
        depths: how far each extends below its origin, m, N numbers.
        waiting: positions on the shelf while unused, m `[N, 3]`.
    """

    actors: tuple[Any, ...]
    first: int
    sizes: torch.Tensor
    depths: tuple[float, ...]
    waiting: torch.Tensor

    @classmethod
    def build(
        cls, models: Sequence[Model], choices: Factor, *, lane: int, scene: Any, material: float
    ) -> Stock:
        """Build the models that a factor may choose, in every scene.

        Args:
            models: all models, by number.
            choices: factor whose values are the numbers of the models to build.
            lane: 0 for objects, 1 for plates: the lane of the shelf.
            scene: ManiSkill's scene.
            material: coefficient of their static and dynamic friction.
        """
        used = range(choices.first, choices.first + choices.size)
        waiting = np.array(
            [
                [LANES[lane], LANE_STEP * place, SHELF_TOP + models[number].depth + GAP]
                for place, number in enumerate(used)
            ]
        )
        actors = []
        for place, number in zip(waiting, used, strict=True):
            builder = scene.create_actor_builder()
            models[number].add_to(
                builder,
                PhysxMaterial(static_friction=material, dynamic_friction=material, restitution=0),
            )
            builder.initial_pose = sapien.Pose(place)
            actors.append(builder.build(name=models[number].key))

        def to_device(rows: Any) -> torch.Tensor:
            return torch.as_tensor(np.array(rows), dtype=torch.float32, device=scene.device)

        return cls(
            actors=tuple(actors),
            first=choices.first,
            sizes=to_device([models[number].size for number in used]),
            depths=tuple(models[number].depth for number in used),
            waiting=to_device(waiting),
        )

    def sizes_of(self, chosen: torch.Tensor) -> torch.Tensor:
        """Return edge lengths of the bounding boxes of the chosen numbers `[B]`, m `[B, 3]`."""
        return self.sizes[chosen - self.first]

    def other(self, chosen: torch.Tensor, further: torch.Tensor) -> torch.Tensor:
        """Return numbers `[B]` that differ from `chosen` `[B]`: 1 + `further` `[B]` on, cyclic."""
        return (chosen - self.first + 1 + further) % len(self.actors) + self.first

    def per_row(self, chosen: torch.Tensor, value: Callable[[Any], torch.Tensor]) -> torch.Tensor:
        """Return `value(actor)` `[B, ...]`, each row from its chosen actor (numbers `[B]`)."""
        numbers = torch.unique(chosen - self.first).tolist()
        result = value(self.actors[numbers[0]])
        for number in numbers[1:]:
            rows = chosen - self.first == number
            rows = rows.reshape(-1, *[1] * (result.dim() - 1))
            result = torch.where(rows, value(self.actors[number]), result)
        return result

    def place(
        self,
        wanted: Mapping[int, tuple[torch.Tensor, torch.Tensor]],
        places: torch.Tensor,
        height: float,
    ) -> None:
        """Put the wanted actors in their start poses, and all others on the shelf, at rest.

        Args:
            wanted: numbers `[b]` and quaternions `[b, 4]` by slot.
            places: start points, m `[b, slots, 2]`.
            height: height of the origins, m; raised for actors that would reach into the table.
        """
        used = torch.cat([chosen for chosen, _ in wanted.values()]) - self.first
        for number, actor in enumerate(self.actors):
            at = self.waiting[number].repeat(len(places), 1)
            turned = torch.tensor([1.0, 0, 0, 0], device=at.device).repeat(len(places), 1)
            for slot, (chosen, quaternion) in wanted.items():
                chosen_here = (chosen - self.first == number)[:, None]
                start = self._start(number, places[:, slot], height)
                at = torch.where(chosen_here, start, at)
                turned = torch.where(chosen_here, quaternion, turned)
            actor.set_pose(Pose.create_from_pq(p=at, q=turned))
            self._rest(actor)
            if not actor.scene.gpu_sim_enabled and number not in used:
                actor._bodies[0].put_to_sleep()  # PhysX skips sleeping bodies

    def scatter(self, *, lane: int) -> None:
        """Put all actors far apart and at rest, so that no contacts remain after a step (CPU)."""
        for number, actor in enumerate(self.actors):
            actor.set_pose(sapien.Pose([lane, -SCATTER_STEP * (number + 20), SCATTER_STEP]))
            self._rest(actor)

    def move(
        self,
        rows: torch.Tensor,
        chosen: torch.Tensor,
        places: torch.Tensor,
        height: float,
        quaternion: torch.Tensor,
    ) -> None:
        """Move the chosen actors of some rows, at rest.

        Args:
            rows: the rows to change, bool `[B]`.
            chosen: numbers of the actors `[B]`.
            places: target points, m `[B, 2]`.
            height: height of the origins, m; raised for actors that would reach into the table.
            quaternion: rotations (w, x, y, z) `[B, 4]`.
        """
        for number in torch.unique(chosen[rows] - self.first).tolist():
            actor = self.actors[number]
            moved = (rows & (chosen - self.first == number))[:, None]
            target = torch.cat([self._start(number, places, height), quaternion], dim=1)
            actor.set_pose(Pose.create(torch.where(moved, target, actor.pose.raw_pose)))
            actor.set_linear_velocity(torch.where(moved, 0.0, actor.linear_velocity))
            actor.set_angular_velocity(torch.where(moved, 0.0, actor.angular_velocity))

    @staticmethod
    def _rest(actor: Any) -> None:
        actor.set_linear_velocity(torch.zeros(3, device=actor.device))
        actor.set_angular_velocity(torch.zeros(3, device=actor.device))

    def _start(self, number: int, place: torch.Tensor, height: float) -> torch.Tensor:
        lowest = TABLE_HEIGHT + self.depths[number] + GAP
        up = place.new_full((len(place), 1), max(height, lowest))
        return torch.cat([place, up], dim=1)


def add_lights(scene: Any) -> None:
    """Add the benchmark's lights: ambient, one from above and two from the sides."""
    scene.set_ambient_light([0.3, 0.3, 0.3])
    scene.add_directional_light([0, 0, -1], [2.2, 2.2, 2.2])
    scene.add_directional_light([-1, -0.5, -1], [0.7, 0.7, 0.7])
    scene.add_directional_light([1, 1, -1], [0.7, 0.7, 0.7])


def add_shelf(scene: Any) -> None:
    """Add a shelf for unused bodies, which would otherwise fall during the whole episode."""
    builder = scene.create_actor_builder()
    longest = LANE_STEP * 25
    half = [(LANES[1] - LANES[0]) / 2 + 0.3, longest / 2 + 0.3, 0.05]
    middle = [sum(LANES) / 2, longest / 2, SHELF_TOP - half[2]]
    builder.add_box_collision(half_size=half)
    builder.initial_pose = sapien.Pose(middle)
    builder.build_static(name="shelf")
