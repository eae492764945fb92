"""Describe a ranking: the best setting, its seeds and interval, and the undecided settings.

An undecided setting can't be told apart from the best one. It may still be worse.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rlcore.config.schema_tree import find
from rlcore_tools.runs.reading import read_mapping
from rlcore_tools.runs.settings import Ranking, Setting
from rlcore_tools.runs.table import aligned, difference, rate
from rlcore_tools.text import one_line

SHOWN = 10  # settings in a table, or more if more are undecided
FEW = 4  # settings that a sentence names, and left-out runs that are listed
UNDECIDED = "undecided"


def values_of(ranking: Ranking) -> dict[str, Any]:
    """Return a ranking as values that JSON can represent."""
    return {
        "starts": starts_of(ranking),
        "keys": list(ranking.keys),
        "settings": [
            {
                "values": dict(one.values),
                "rate": None if one.rate is None else one.rate._asdict(),
                "behind": None if one.behind is None else one.behind._asdict(),
                "undecided": one in ranking.tied,
                "seeds": [seed.row.seed for seed in one.seeds],
                "runs": [str(row.folder) for row in one.rows],
            }
            for one in ranking.settings
        ],
        "left_out": dict(ranking.left_out),
    }


def lines_of(ranking: Ranking, folder: Path) -> list[str]:
    """Return a ranking as lines of text.

    Args:
        folder: the folder that was searched for runs.
    """
    if not ranking.measured:
        return [f"no run below {folder} is finished and evaluated", *_left_out(ranking)]
    shown = ranking.measured[: max(SHOWN, 1 + len(ranking.tied))]
    columns = {
        "setting": [one_line(one.label) or "(all alike)" for one in shown],
        "seeds": [str(len(one.seeds)) for one in shown],
        "success": [rate(one.rate._asdict()) if one.rate else "" for one in shown],
        "best - it": [difference(one.behind._asdict()) if one.behind else "" for one in shown],
        "": ["best", *("" if one.beaten else UNDECIDED for one in shown[1:])],
    }
    lines = [*aligned(columns).splitlines()]
    more = len(ranking.settings) - len(shown)
    lines += [f"and {more} more settings"] if more else []
    return [*lines, "", *sentences(ranking), *_left_out(ranking), *_next(ranking, folder)]


def sentences(ranking: Ranking) -> list[str]:
    """Return sentences on what a ranking shows, and on its limits.

    Args:
        ranking: a ranking with at least one measured setting.
    """
    best, tied = ranking.measured[0], ranking.tied
    found = []
    if len(ranking.measured) > 1:
        name = best.label or "the only setting"
        more = f" and {len(tied) - FEW} more" if len(tied) > FEW else ""
        others = "; ".join(one.label for one in tied[:FEW]) + more
        found.append(
            f"Best: {name}. "
            + (
                f"It can't be told apart from {others}: play further seeds of the first few."
                if tied
                else "It is better than all."
            )
        )
    count, starts = len(ranking.measured), starts_of(ranking)
    if count > 1 and "validation" not in starts:
        found.append(
            f"{count} settings were compared on {starts}: the success of the best of them is too "
            "high by chance. Play it on other starts before you report it."
        )
    if all(len(one.seeds) == 1 for one in ranking.measured):
        found.append("One seed a setting: the intervals say nothing about other seeds.")
    return found


def starts_of(ranking: Ranking) -> str:
    """Return which starts settings were compared on, as a phrase such as "held-out starts"."""
    for one in ranking.measured[:1]:
        manifest = read_mapping(one.seeds[0].row.folder / "manifest.json") or {}
        return str(find(manifest, "evaluated_on") or "starts")
    return "starts"


def _left_out(ranking: Ranking) -> list[str]:
    return [
        f"left out: {one_line(name)}: {why}" for name, why in list(ranking.left_out.items())[:FEW]
    ] + ([f"and {len(ranking.left_out) - FEW} more"] if len(ranking.left_out) > FEW else [])


def _next(ranking: Ranking, folder: Path) -> list[str]:
    return [f"look at them: rlcore report {shlex.quote(str(folder))}"]


def place(ranking: Ranking, setting: Setting) -> str:
    """Return "best", "undecided", or "" for a setting that is beaten or has no rate."""
    if setting in ranking.measured[:1]:
        return "best"
    return UNDECIDED if setting in ranking.tied else ""
