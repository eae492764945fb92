"""Format a ranking of settings: `rlcore runs best`, and the sentences of a sweep's page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rlcore_tools.runs.ranking import UNDECIDED, Ranking
from rlcore_tools.runs.table import aligned, difference, rate
from rlcore_tools.text import one_line

SHOWN = 10  # settings in a table, or more if more are undecided
FEW = 4  # settings that a sentence names, and left-out runs that are listed


def values_of(ranking: Ranking) -> dict[str, Any]:
    """Return a ranking as values that JSON can represent."""
    return {
        "starts": starts_of(ranking),
        "keys": list(ranking.keys),
        "settings": [
            {
                "values": dict(ranked.values),
                "rate": ranked.rate and ranked.rate._asdict(),
                "behind": ranked.behind and ranked.behind._asdict(),
                "undecided": ranked.verdict == UNDECIDED,
                "seeds": [seed.row.seed for seed in ranked.seeds],
                "runs": [str(row.folder) for row in ranked.setting.rows],
            }
            for ranked in ranking.settings
        ],
        "left_out": dict(ranking.left_out),
    }


def lines_of(ranking: Ranking, folder: Path) -> list[str]:
    """Return a ranking as lines of text.

    Args:
        folder: the folder that was searched for runs.
    """
    left_out = [
        f"left out: {one_line(name)}: {reason}" for name, reason in ranking.left_out.items()
    ]
    if len(left_out) > FEW:
        left_out[FEW:] = [f"and {len(left_out) - FEW} more"]
    if not ranking.measured:
        return [f"no run below {folder} is finished and evaluated", *left_out]
    listed = ranking.measured[: max(SHOWN, 1 + len(ranking.tied))]
    columns = {
        "setting": [one_line(ranked.label) or "(only setting)" for ranked in listed],
        "seeds": [str(len(ranked.seeds)) for ranked in listed],
        "success": [rate(ranked.rate and ranked.rate._asdict()) for ranked in listed],
        "best - it": [difference(ranked.behind and ranked.behind._asdict()) for ranked in listed],
        "": [ranked.verdict for ranked in listed],
    }
    lines = aligned(columns).splitlines()
    if len(ranking.settings) > len(listed):
        lines.append(f"and {len(ranking.settings) - len(listed)} more settings")
    next_command = f"look at them: rlcore report {shlex.quote(str(folder))}"
    return [*lines, "", *sentences(ranking), *left_out, next_command]


def sentences(ranking: Ranking) -> list[str]:
    """Return sentences on what a ranking shows, and on its limits.

    Args:
        ranking: a ranking with at least one measured setting.
    """
    tied = ranking.tied
    measured = ranking.measured
    starts = starts_of(ranking)
    result = []
    if len(measured) > 1:
        best = f"Best: {measured[0].label or 'the only setting'}."
        others = "; ".join(ranked.label for ranked in tied[:FEW])
        more = f" and {len(tied) - FEW} more" if len(tied) > FEW else ""
        result.append(
            f"{best} It is not significantly better than {others}{more}: run further seeds of "
            "these settings."
            if tied
            else f"{best} It is significantly better than all others."
        )
        if "validation" not in starts:
            result.append(
                f"{len(measured)} settings were compared on {starts}: the success rate of "
                "the best one is biased upwards by this choice. Evaluate it on other starts before "
                "you report it."
            )
    if all(len(ranked.seeds) == 1 for ranked in measured):
        result.append(
            "One seed per setting: the intervals do not include the variation between seeds."
        )
    return result


def starts_of(ranking: Ranking) -> str:
    """Return which starts settings were compared on, as a phrase such as "held-out starts"."""
    measured = ranking.measured
    return measured[0].seeds[0].row.record.evaluated_on if measured else "starts"
