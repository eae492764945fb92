"""Draw parallel coordinates as inline SVG.

Each setting is a line and each key an axis. The last axis is the success rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

from markupsafe import Markup

from rlcore.utils.text import format_value
from rlcore_tools.report.chart import add_line, add_text, number, ticks, to_markup

# margins in units of the view box
TOP = 34
BOTTOM = 14
SIDE = 56
MOST_LETTERS = 16
WIDE_RANGE = 30  # an axis is logarithmic if the largest value is this multiple of the smallest


class Line(NamedTuple):
    """A setting.

    Attributes:
        values: its value on each axis.
        kind: CSS class of the line.
        title: text of its tooltip.
    """

    values: Sequence[Any]
    kind: str
    title: str


class _Axis(NamedTuple):
    place: Callable[[Any], float]  # 0 at the bottom, 1 at the top
    marks: list[tuple[float, str]]


def parallel(lines: Sequence[Line], names: Sequence[str], *, width: int, height: int) -> Markup:
    """Draw settings as an SVG element. Lines are more opaque the higher their success rate is.

    Args:
        lines: at least one setting, each with one value per axis, of which the last is the success
            rate. They are drawn in reverse order, so that the first one is on top.
        names: names of the axes.
        width, height: size of the view box; text is 12 units high.
    """
    label = f"{', '.join(names)} of {len(lines)} settings"
    svg = Element("svg", {"viewBox": f"0 0 {width} {height}", "role": "img", "aria-label": label})
    axes = [_axis([line.values[i] for line in lines]) for i in range(len(names) - 1)]
    axes.append(_Axis(float, [(tick, number(tick)) for tick in ticks(0.0, 1.0, 5)]))
    gap = (width - 2 * SIDE) / max(1, len(names) - 1)

    def y(part: float) -> float:
        return TOP + (1 - part) * (height - TOP - BOTTOM)

    most = max(line.values[-1] for line in lines) or 1.0
    for line in reversed(lines):
        group = SubElement(svg, "g", {"class": line.kind})
        points = [
            (SIDE + i * gap, y(axis.place(value)))
            for i, (axis, value) in enumerate(zip(axes, line.values, strict=True))
        ]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        opacity = {"opacity": f"{0.1 + 0.9 * line.values[-1] / most:.2f}"}
        curve = SubElement(group, "polyline", {"class": "curve", "points": path, **opacity})
        SubElement(curve, "title").text = line.title
    for i, (name, axis) in enumerate(zip(names, axes, strict=True)):
        at = SIDE + i * gap
        add_line(svg, at, y(0), at, y(1), "axis")
        add_text(svg, at, 16, _shortened(name), "middle")
        for part, mark in axis.marks:
            add_text(svg, at - 5, y(part) + 4, _shortened(mark), "end")
    return to_markup(svg)


def _axis(values: Sequence[Any]) -> _Axis:
    """Return an axis for these values: linear or logarithmic for numbers, else categorical.

    An axis whose values are one and the same number is categorical, as its range is empty.
    """
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(numbers) < len(values) or len(set(numbers)) == 1:
        return _categorical_axis([format_value(value) for value in values])
    lo = min(numbers)
    hi = max(numbers)
    is_logarithmic = lo > 0 and hi / lo >= WIDE_RANGE
    scale: Callable[[float], float] = log10 if is_logarithmic else float
    bottom = scale(lo)
    top = scale(hi)
    if len(set(numbers)) <= 6:
        marks = sorted(set(numbers))
    elif is_logarithmic:
        marks = [10.0**k for k in range(-30, 31) if lo <= 10.0**k <= hi] or [lo, hi]
    else:
        marks = ticks(lo, hi, 5)

    def place(value: Any) -> float:
        return (scale(value) - bottom) / (top - bottom)

    return _Axis(place, [(place(value), number(value)) for value in marks])


def _categorical_axis(names: Sequence[str]) -> _Axis:
    """Return a categorical axis, with the names sorted from top to bottom."""
    distinct = sorted(set(names))
    gaps = max(1, len(distinct) - 1)
    positions = {
        name: 1 - i / gaps if len(distinct) > 1 else 0.5 for i, name in enumerate(distinct)
    }
    return _Axis(
        lambda value: positions[format_value(value)],
        [(position, name) for name, position in positions.items()],
    )


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
