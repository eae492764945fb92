"""Draw charts as inline SVG. Colours are CSS classes, which the page's style sheet defines.

y |  --o--  lines with bands, markers with error bars
  +-------- x
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, isfinite, log10
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

# margins in units of the view box
LEFT = 46
RIGHT = 14
TOP = 12
BOTTOM = 38
COLOURS = 8  # CSS classes c0 .. c7
MOST_TOOLTIPS = 200  # a line with more points gets no tooltips
Scale = Callable[[float], float]


class Point(NamedTuple):
    """A point (x, y), with the interval [lo, hi] of y if it has one."""

    x: float
    y: float
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True)
class Series:
    """Points that are drawn in one colour.

    Attributes:
        name: name in tooltips.
        points: points sorted by x; one whose y is not finite leaves a gap.
        colour: index of the colour, taken modulo :data:`COLOURS`.
        joined: True draws a line with a band, False separate markers with error bars.
    """

    name: str
    points: Sequence[Point]
    colour: int = 0
    joined: bool = True


def chart(
    series: Sequence[Series],
    *,
    width: int,
    height: int,
    label: str,
    x_label: str = "update",
    y_range: tuple[float, float] | None = None,
) -> Markup:
    """Draw a chart as an SVG element that scales to the width of its container.

    Args:
        series: the series, with at least one finite point among them.
        width, height: size of the view box; text is 12 units high.
        label: description of the chart for screen readers.
        x_label: label of the x axis; tooltips use it as unit, except "update", "optimizer step".
        y_range: range of the y axis; None: the range of values and intervals, padded.

    Raises:
        ValueError: no point is finite.
    """
    points = [p for line in series for p in line.points if isfinite(p.y)]
    if not points:
        raise ValueError(f"no point of {label!r} is a number")
    bounds = [v for p in points for v in (p.y, p.lo, p.hi) if v is not None and isfinite(v)]
    y_lo, y_hi = y_range or _padded(min(bounds), max(bounds))
    x_lo = min(p.x for p in points)
    x_hi = max(p.x for p in points)
    if x_lo == x_hi:
        x_lo -= 1
        x_hi += 1
    x = _scale(x_lo, x_hi, LEFT, width - RIGHT)
    y = _scale(y_lo, y_hi, height - BOTTOM, TOP)
    svg = Element("svg", {"viewBox": f"0 0 {width} {height}", "role": "img", "aria-label": label})
    unit = "" if x_label in ("update", "optimizer step") else f" {x_label}"
    for tick in ticks(y_lo, y_hi, height // 40):
        add_line(svg, LEFT, y(tick), width - RIGHT, y(tick), "rule")
        add_text(svg, LEFT - 6, y(tick) + 4, number(tick), "end")
    for tick in ticks(x_lo, x_hi, width // 80, whole=True):
        add_text(svg, x(tick), height - BOTTOM + 18, number(tick), "middle")
    add_text(svg, (LEFT + width - RIGHT) / 2, height - 4, x_label, "middle")
    for line in sorted(series, key=lambda line: not line.joined):  # markers are drawn last
        draw = _draw_line if line.joined else _draw_markers
        draw(svg, line, x, y, unit)
    return to_markup(svg)


def interval_bars(
    rows: Sequence[tuple[str, Point]], *, width: int = 160, height: int = 26
) -> Markup:
    """Draw rates with their intervals, one below the other, on a common axis from 0 to 1.

    Args:
        rows: (CSS class, point) of each rate; y is the rate, x is not used.
        width, height: size of the view box.
    """
    scale = _scale(0.0, 1.0, 6, width - 6)
    svg = Element("svg", {"viewBox": f"0 0 {width} {height}", "class": "bars", "role": "img"})
    add_line(svg, scale(0), height / 2, scale(1), height / 2, "rule")
    for i, (kind, point) in enumerate(rows):
        level = height * (i + 1) / (len(rows) + 1)
        group = SubElement(svg, "g", {"class": kind})
        if point.lo is not None and point.hi is not None:
            add_line(group, scale(point.lo), level, scale(point.hi), level, "error")
        _add_circle(group, scale(point.y), level, 3.5, "dot", _tooltip(kind, point, None))
    return to_markup(svg)


def ticks(lo: float, hi: float, most: int, *, whole: bool = False) -> list[float]:
    """Return about `most` round values in [lo, hi]: multiples of 1, 2 or 5 times 10^k.

    Args:
        whole: use integers only.
    """
    raw = (hi - lo) / most
    power = 10.0 ** floor(log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    if whole:
        step = max(1.0, step)
    first = -floor(-lo / step)
    return [round(i * step, 12) for i in range(first, floor(hi / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Format a number for a label, with four significant digits at most below 1e4."""
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


# -- series -------------------------------------------------------------------------------------


def _draw_line(svg: Element, series: Series, x: Scale, y: Scale, unit: str) -> None:
    group = SubElement(svg, "g", {"class": f"c{series.colour % COLOURS}"})
    for stretch in _stretches(series.points):
        banded = [(p.x, p.lo, p.hi) for p in stretch if p.lo is not None and p.hi is not None]
        if len(banded) > 1:
            upper_edge = [(x_value, hi) for x_value, _, hi in banded]
            lower_edge = [(x_value, lo) for x_value, lo, _ in reversed(banded)]
            outline = upper_edge + lower_edge
            SubElement(group, "polygon", {"class": "band", "points": _path(outline, x, y)})
        if len(stretch) > 1:
            path = _path([(p.x, p.y) for p in stretch], x, y)
            SubElement(group, "polyline", {"class": "curve", "points": path})
        if len(stretch) > 1 and len(series.points) > MOST_TOOLTIPS:
            continue
        kind = "point" if len(stretch) == 1 else "hover"
        radius = 3 if len(stretch) == 1 else 7
        for p in stretch:
            _add_circle(group, x(p.x), y(p.y), radius, kind, _tooltip(series.name, p, unit))


def _draw_markers(svg: Element, series: Series, x: Scale, y: Scale, unit: str) -> None:
    group = SubElement(svg, "g", {"class": f"c{series.colour % COLOURS}"})
    for p in series.points:
        if not isfinite(p.y):
            continue
        if p.lo is not None and p.hi is not None:
            add_line(group, x(p.x), y(p.lo), x(p.x), y(p.hi), "error")
        _add_circle(group, x(p.x), y(p.y), 4.5, "dot", _tooltip(series.name, p, unit))


def _stretches(points: Sequence[Point]) -> list[list[Point]]:
    """Split points into runs of consecutive points whose y is finite."""
    stretches = groupby(points, key=lambda point: isfinite(point.y))
    return [list(stretch) for finite, stretch in stretches if finite]


def _tooltip(name: str, point: Point, unit: str | None = "") -> str:
    at = "" if unit is None else f" at {number(point.x)}{unit}"
    interval = "" if point.lo is None or point.hi is None else f" [{point.lo:.3f}, {point.hi:.3f}]"
    return f"{name}{at}: {point.y:.4g}{interval}"


# -- elements -----------------------------------------------------------------------------------


def _scale(lo: float, hi: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - lo) / (hi - lo) * (end - start)


def _padded(lo: float, hi: float) -> tuple[float, float]:
    margin = (hi - lo) * 0.06 or abs(hi) * 0.1 or 1.0
    return (0.0 if 0 <= lo < 0.5 * hi else lo - margin), hi + margin


def _path(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    return " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)


def add_line(parent: Element, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
    """Add a line from (x1, y1) to (x2, y2); `kind` is its CSS class."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    SubElement(parent, "line", {"class": kind, **{k: f"{v:.1f}" for k, v in ends.items()}})


def _add_circle(parent: Element, x: float, y: float, r: float, kind: str, title: str) -> None:
    place = {"class": kind, "cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": f"{r:g}"}
    SubElement(SubElement(parent, "circle", place), "title").text = title


def add_text(parent: Element, x: float, y: float, text: str, anchor: str) -> None:
    """Add a text at (x, y).

    Args:
        anchor: which part of the text is at x: "start", "middle" or "end".
    """
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    SubElement(parent, "text", place).text = text


def to_markup(svg: Element) -> Markup:
    """Return an SVG element as markup."""
    return Markup(tostring(svg, encoding="unicode"))  # safe: ElementTree escapes all text
