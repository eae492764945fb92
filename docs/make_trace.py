"""Draw a trace of `runner.trace=true` as a picture for a page.

    python docs/make_trace.py PICTURE.svg TRACE.json [SECONDS [SECONDS]]

Draws a bar for each span of the rows in :data:`ROWS`, from the first of the given seconds of the
run to the second, by default all.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

ROWS = {"driver": ("phases",), "env": ("stage",), "rollout": ("policy",), "actor": ("calls",)}
"""First words of the names of the rows to draw, by first word of the process."""
COLORS = {
    "wait": "#e4e4e4",
    "env_chunk": "#4c9f70",
    "env_reset": "#9ccfb0",
    "forward": "#3b6fb6",
    "prepare": "#3b6fb6",
    "update": "#d9822b",
    "rollout": "#7aa6d8",
}
OTHER = "#a58bc4"
LEFT, WIDTH, HEIGHT, GAP = 190, 760, 22, 8


def main(picture: Path, trace: Path, begin: float = 0.0, end: float = float("inf")) -> None:
    """Write the picture."""
    text = trace.read_text().rstrip().rstrip(",")
    # the trace of a killed run lacks its last bracket
    events = json.loads(text if text.endswith("]") else f"{text}]")
    names = {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in events
        if event["name"] in ("process_name", "thread_name")
    }
    rows: dict[str, list[Any]] = {}
    spans = [event for event in events if event["ph"] == "X"]
    zero = min(span["ts"] for span in spans)
    end = min(end, max(span["ts"] + span["dur"] - zero for span in spans) / 1e6)
    for span in spans:
        process = names[span["pid"], None]
        row = names[span["pid"], span["tid"]]
        if row.startswith(ROWS[process.split()[0]]):
            rows.setdefault(f"{process}: {row}", []).append(span)
    picture.write_text(_drawn(rows, zero, begin, end))


def _drawn(rows: dict[str, list[Any]], zero: int, begin: float, end: float) -> str:
    """Return the picture as SVG."""
    scale = WIDTH / (end - begin)
    parts: list[str] = []
    for number, (label, spans) in enumerate(rows.items()):
        top = GAP + number * (HEIGHT + GAP)
        parts.append(
            f'<text x="{LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(label)}</text>'
        )
        for span in spans:
            first = max(begin, (span["ts"] - zero) / 1e6)
            last = min(end, (span["ts"] + span["dur"] - zero) / 1e6)
            if last <= first:
                continue
            left = LEFT + (first - begin) * scale
            width = max(0.4, (last - first) * scale)
            color = COLORS.get(span["name"], COLORS["wait"] if span["cat"] == "wait" else OTHER)
            parts.append(
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" '
                f'fill="{color}"><title>{escape(span["name"])}</title></rect>'
            )
            if width > 7 * len(span["name"]):
                parts.append(
                    f'<text x="{left + 3:.1f}" y="{top + 15}">{escape(span["name"])}</text>'
                )
    bottom = GAP + len(rows) * (HEIGHT + GAP)
    for tick in range(6):
        seconds = (end - begin) * tick / 5
        x = LEFT + seconds * scale
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">'
            f"{begin + seconds:.1f} s</text>"
        )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" '
            f'height="{bottom + 20}" font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:]))
