"""Record which env a checkpoint or data set belongs to, and compare it with another env.

A policy whose weights fit another env (other cameras, other units, other pixels) acts there without
an error, and badly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlcore.config.instructions import RECORDED as FILE
from rlcore.contracts.specs import ActionChannel, EnvSpec, StateChannel
from rlcore.files.damaged_files import blaming, read_mapping


@dataclass(frozen=True)
class EnvFacts:
    """Of one env under its settings.

    Attributes:
        env: its name.
        cameras: `{name: [height, width]}`, in the order in which policies take them.
        states, actions: channels in order, by the fields of their specs.
        render_settings: what changes pixels
        (:attr:`rlcore.contracts.specs.EnvSpec.render_settings`).
        sentences: `{task: sentence}`; empty: it does not say.
    """

    env: str
    cameras: Mapping[str, list[int]]
    states: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    render_settings: Mapping[str, str | int | float | bool]
    sentences: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: EnvSpec) -> EnvFacts:
        """Collect the facts of an env under its present settings."""
        return cls(
            env=spec.name,
            cameras={camera.name: [camera.height, camera.width] for camera in spec.cameras},
            states=_channels(spec.states),
            actions=_channels(spec.actions),
            render_settings=dict(spec.render_settings),
            sentences=dict(zip(spec.tasks, spec.descriptions, strict=True)),
        )

    def unlike(self, other: EnvFacts, *, pixels: bool = False) -> Iterator[tuple[str, Any, Any]]:
        """Return (field, ours, theirs) for each difference that changes the meaning of numbers;
        with `pixels`, also for those that change frames."""
        for what, mine, others in (
            ("action", self.actions, other.actions),
            ("state", self.states, other.states),
        ):
            if width_of(mine) != width_of(others):
                yield f"{what} entries", width_of(mine), width_of(others)
            # as many entries may still mean something else: other units, another controller
            for here, there in zip(mine, others, strict=False):
                if here != there:
                    yield f"{what}s", here, there
        if list(self.cameras) != list(other.cameras):
            yield "cameras", list(self.cameras), list(other.cameras)
        elif pixels and self.cameras != other.cameras:
            yield "cameras", dict(self.cameras), dict(other.cameras)
        if pixels:
            yield from self.drawn_unlike(other)

    def drawn_unlike(self, other: EnvFacts) -> Iterator[tuple[str, Any, Any]]:
        """Return (setting, here, there) of what changes pixels, where both sides know it."""
        for name, here in self.render_settings.items():
            there = other.render_settings.get(name, here)
            if here != there:
                yield name, here, there

    def told_unlike(self, other: EnvFacts) -> list[tuple[str, str, str]]:
        """Return (task, here, there) of tasks that both have, under other sentences."""
        pairs = ((t, here, other.sentences.get(t, here)) for t, here in self.sentences.items())
        return [(task, here, there) for task, here, there in pairs if here != there]


def width_of(channels: Iterable[Mapping[str, Any]]) -> int:
    """Count the entries of a vector."""
    return sum(channel["size"] for channel in channels)


def write_env_facts(folder: Path, spec: EnvSpec) -> None:
    """Say in a policy's folder in which env it was trained."""
    from rlcore.files.atomic import write_text

    write_text(folder / FILE, json.dumps(asdict(EnvFacts.of(spec)), indent=1) + "\n")


def read_env_facts(folder: Path) -> EnvFacts | None:
    """Read the facts in a policy's folder; None without any, as in published ones.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    with blaming(path):
        return EnvFacts(**read_mapping(path))


def _channels(channels: Iterable[StateChannel | ActionChannel]) -> list[dict[str, Any]]:
    return [asdict(channel) for channel in channels]
