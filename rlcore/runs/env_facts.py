"""Record which env a checkpoint or data set belongs to, and compare it with another env.

A policy trained in an env with other cameras, units or pixels may run without an error, but
performs badly. Comparing the records finds such a mismatch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlcore.config.instructions import RECORDED as FILE
from rlcore.contracts.specs import ActionChannel, EnvSpec, StateChannel
from rlcore.files.damaged_files import damaged_on, read_mapping


@dataclass(frozen=True)
class EnvFacts:
    """Facts of one env under its settings.

    Attributes:
        env: name of the env.
        cameras: `{name: [height, width]}` in pixels, in the order in which policies take them.
        states, actions: the channels in order, each as a mapping of its spec's fields.
        render_settings: settings that change pixels
            (:attr:`rlcore.contracts.specs.EnvSpec.render_settings`).
        sentences: instruction of each task, `{task: sentence}`; empty if not recorded.
    """

    env: str
    cameras: Mapping[str, list[int]]
    states: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    render_settings: Mapping[str, str | int | float | bool]
    sentences: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_spec(cls, spec: EnvSpec) -> EnvFacts:
        """Collect the facts of an env from its spec."""
        return cls(
            env=spec.name,
            cameras={camera.name: [camera.height, camera.width] for camera in spec.cameras},
            states=_channels(spec.states),
            actions=_channels(spec.actions),
            render_settings=dict(spec.render_settings),
            sentences=dict(zip(spec.tasks, spec.instructions, strict=True)),
        )

    def differences(
        self, other: EnvFacts, *, pixels: bool = False
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield (field, ours, theirs) for each difference that affects a policy.

        These are the sizes and channels of actions and states, and the names and order of cameras.
        Channels are described by their meaning and what differs.

        Args:
            other: the facts of the other env.
            pixels: also compare camera sizes and render settings, which change frames.
        """
        for kind, our_channels, their_channels in (
            ("action", self.actions, other.actions),
            ("state", self.states, other.states),
        ):
            if total_size(our_channels) != total_size(their_channels):
                yield f"{kind} entries", total_size(our_channels), total_size(their_channels)
            # equal sizes may still have other meanings: other units, another controller
            for ours, theirs in zip(our_channels, their_channels, strict=False):
                if ours != theirs:
                    yield f"{kind}s", _unlike(ours, theirs), _unlike(theirs, ours)
        if list(self.cameras) != list(other.cameras):
            yield "cameras", list(self.cameras), list(other.cameras)
        elif pixels and self.cameras != other.cameras:
            yield "cameras", dict(self.cameras), dict(other.cameras)
        if pixels:
            yield from self.rendering_differences(other)

    def rendering_differences(self, other: EnvFacts) -> Iterator[tuple[str, Any, Any]]:
        """Yield (setting, ours, theirs) of each render setting that both have and that differs."""
        for name, ours in self.render_settings.items():
            theirs = other.render_settings.get(name, ours)
            if ours != theirs:
                yield name, ours, theirs

    def instruction_differences(self, other: EnvFacts) -> list[tuple[str, str, str]]:
        """Return (task, ours, theirs) of each common task whose instructions differ."""
        return [
            (task, ours, other.sentences[task])
            for task, ours in self.sentences.items()
            if other.sentences.get(task, ours) != ours
        ]


def total_size(channels: Iterable[Mapping[str, Any]]) -> int:
    """Return the length of the vector that these channels form, the sum of their sizes."""
    return sum(channel["size"] for channel in channels)


def write_env_facts(folder: Path, spec: EnvSpec) -> None:
    """Record in a policy's folder the env in which it was trained."""
    from rlcore.files.atomic import write_text

    write_text(folder / FILE, json.dumps(asdict(EnvFacts.from_spec(spec)), indent=1) + "\n")


def read_env_facts(folder: Path) -> EnvFacts | None:
    """Read the env facts in a policy's folder; None if it has none, as with published weights.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    with damaged_on(path):
        return EnvFacts(**read_mapping(path))


def _unlike(channel: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe a channel by its meaning and by what differs from another channel."""
    names = [name for name in channel if name != "meaning" and channel[name] != other.get(name)]
    parts = [f"{name} {channel[name]!r}" for name in names if name not in ("low", "high")]
    if {"low", "high"} & {*names}:
        parts.insert(0, f"range [{channel['low']:g}, {channel['high']:g}]")
    return str(channel["meaning"]) + (f" with {', '.join(parts)}" if parts else "")


def _channels(channels: Iterable[StateChannel | ActionChannel]) -> list[dict[str, Any]]:
    return [asdict(channel) for channel in channels]
