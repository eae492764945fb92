"""Find numbers and names of a data set that contradict its description: likely mistakes of it.

Nothing here is certain, so each finding is a sentence for a warning that says what it is based on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlcore_data_lerobot.mapping import FeatureMapping, Source

DEGREES = 180 / math.pi
FOLLOWS = 0.8
"""Median correlation with a state from which an action counts as a target of it."""
OTHER_UNIT = 3.0
"""Ratio of the spreads of an action and of the state that it follows from which they are taken to
have different units."""
LITTLE = 0.1
"""Share of the range of an action below which its entries are suspiciously small."""
MOSTLY = 0.8
"""Share of episodes that must begin with a closed gripper for a warning."""
MOST_RADIANS = 4 * math.pi
MOST_ROWS = 20_000
"""Most rows of a data set that are looked at."""
_IGNORED = {"observation", "observations", "images", "image", "camera", "cam", "rgb", "color"}
_SENSE = re.compile(
    r"(?P<above>above\s+)?(?P<number>[-+]?\d+(?:\.\d+)?)\s*(?:is\s+)?(?P<verb>open|close)",
    re.IGNORECASE,
)


@dataclass
class RowSample:
    """Rows of a data set, in the units of the description, before clipping.

    Args:
        step: each so many rows of an episode are kept.

    Attributes:
        states, actions: numbers by channel, arrays `[l, n]` of each episode.
    """

    step: int
    states: dict[str, list[np.ndarray]] = field(default_factory=dict)
    actions: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: int) -> RowSample:
        """Return an empty sample for a data set of so many rows."""
        return cls(max(1, rows // MOST_ROWS))

    def add(self, mapping: FeatureMapping, columns: Mapping[str, np.ndarray]) -> None:
        """Add the rows of an episode; `columns` has its features, `[L, m]`."""
        for kept, sources in ((self.states, mapping.states), (self.actions, mapping.actions)):
            for source in sources:
                rows = source.scaled(columns[source.feature][:: self.step])
                kept.setdefault(source.channel, []).append(rows)


def contradictions(mapping: FeatureMapping, sample: RowSample) -> Iterator[str]:
    """Yield a sentence for each part of the description that the data contradicts."""
    yield from swapped_cameras({name: camera.feature for name, camera in mapping.cameras.items()})
    for source, channel in zip(mapping.actions, mapping.facts.actions, strict=True):
        episodes = sample.actions.get(source.channel)
        if not episodes:
            continue
        convention = str(channel["convention"])
        actions = np.concatenate(episodes)
        differs = []
        if channel["meaning"] == "joint_position":
            differs = [*_unlike_its_state(source, actions, mapping.states, sample)]
        yield from differs or _in_another_unit(source, actions, convention)
        yield from _begins_closed(source, episodes, convention)


def swapped_cameras(features: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each pair of cameras whose features fit the other one by name.

    Args:
        features: name of the feature of each camera.
    """
    cameras = list(features)
    for number, first in enumerate(cameras):
        for second in cameras[number + 1 :]:
            as_given = _fit(first, features[first]) + _fit(second, features[second])
            exchanged = _fit(first, features[second]) + _fit(second, features[first])
            if exchanged > as_given:
                yield (
                    f"cameras.{first} is {features[first]}, and cameras.{second} is "
                    f"{features[second]}: by their names the two are exchanged"
                )


def fitting_names(cameras: Sequence[str], features: Sequence[str]) -> dict[str, str]:
    """Return a feature for each camera: those whose names fit best, the others in order.

    A camera is left out if there are fewer features.
    """
    pairs = [(camera, feature) for camera in cameras for feature in features]
    pairs.sort(key=lambda pair: -_fit(*pair))  # pairs that fit equally well stay in order
    chosen: dict[str, str] = {}
    for camera, feature in pairs:
        if camera not in chosen and feature not in chosen.values():
            chosen[camera] = feature
    return chosen


def correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the correlation of each entry of two arrays `[L, n]`, `[n]`; 0 for a constant one."""
    a, b = (rows.astype(np.float64) - rows.mean(axis=0) for rows in (first, second))
    norm = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    return np.divide((a * b).sum(axis=0), norm, out=np.zeros(a.shape[1]), where=norm > 0)


def _fit(camera: str, feature: str) -> int:
    """Return how many words the names of a camera and a feature share."""
    first, second = (
        {word for word in re.split(r"[^a-z0-9]+|_", name.lower()) if word} - _IGNORED
        for name in (camera, feature)
    )
    return len(first & second)


def _unlike_its_state(
    source: Source, actions: np.ndarray, states: Sequence[Source], sample: RowSample
) -> Iterator[str]:
    """Yield a sentence if the targets of joints have another unit than the state that follows them.

    Args:
        actions: targets `[L, n]`.
    """
    for state in states:
        values = np.concatenate(sample.states[state.channel])
        columns = _same_entries(source, state, actions.shape[1], values.shape[1])
        values = values[:, columns]
        if not columns or float(np.median(correlations(actions, values))) < FOLLOWS:
            continue
        spread = values.std(axis=0)
        ratio = float(np.median(actions.std(axis=0)[spread > 0] / spread[spread > 0]))
        if 1 / OTHER_UNIT < ratio < OTHER_UNIT:
            continue
        unit = ""
        if any(abs(factor / DEGREES - 1) < 0.25 for factor in (ratio, 1 / ratio)):
            unit = ": one in degrees, the other in radians?"
        yield (
            f"{source.channel} goes from {actions.min():.3g} to {actions.max():.3g} and "
            f"{state.channel}, which follows it, from {values.min():.3g} to {values.max():.3g}, "
            f"so it moves {ratio:.3g} times as far{unit}"
        )


def _same_entries(action: Source, state: Source, width: int, state_width: int) -> list[int]:
    """Return the columns of a state that have the entries of an action; empty if there are none.

    Channels of one size are taken to have the same entries, others to have the same numbers in
    their features.
    """
    if width == state_width:
        return list(range(width))
    wanted = list(action.entries or range(width))
    have = list(state.entries or range(state_width))
    return [have.index(entry) for entry in wanted] if set(wanted) <= set(have) else []


def _in_another_unit(source: Source, actions: np.ndarray, convention: str) -> Iterator[str]:
    """Yield a sentence if an action has another unit than its convention or range says."""
    reach = float(np.abs(actions).max())
    low, high = float(actions.min()), float(actions.max())
    if re.search(r"\brad", convention) and reach > MOST_RADIANS:
        yield (
            f"{source.channel} is said to be in radians ({convention!r}) and goes from {low:.3g} "
            f"to {high:.3g}: degrees? Then scale: 0.0174533"
        )
    elif source.bounds is not None and reach < LITTLE * max(map(abs, source.bounds)):
        yield (
            f"{source.channel} goes from {low:.3g} to {high:.3g}, less than a tenth of its range "
            f"[{source.bounds[0]:g}, {source.bounds[1]:g}]: is it in another unit (scale)?"
        )


def _begins_closed(
    source: Source, episodes: Sequence[np.ndarray], convention: str
) -> Iterator[str]:
    """Yield a sentence if a gripper is closed, by its convention, where nearly all episodes begin.

    Most episodes begin with an open gripper. The convention gives a number and what it does, such
    as "+1 closes" or "above 0.5 opens".
    """
    sense = _SENSE.search(convention)
    if sense is None or source.bounds is None:
        return
    middle = sum(source.bounds) / 2
    is_high = bool(sense["above"]) or float(sense["number"]) > middle
    closes = sense["verb"].lower() == "close"
    values = np.concatenate(episodes)
    if not values.min() < middle < values.max():  # it is never moved
        return
    firsts = np.array([rows[0].mean() for rows in episodes])
    closed = (firsts > middle) if is_high == closes else (firsts < middle)
    if len(firsts) > 1 and closed.mean() >= MOSTLY:
        yield (
            f"{source.channel}: by its convention ({convention!r}) it is closed where "
            f"{int(closed.sum())} of {len(firsts)} episodes begin; if it is open there, its scale "
            "has the wrong sign"
        )
