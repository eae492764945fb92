"""Rank settings by their mean success, and mark those not significantly worse than the best.

A setting is undecided if the interval of its difference to the best one contains 0. It may still
be worse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.api import protocol_difference
from rlcore.contracts.errors import UserError
from rlcore.runs.statistics import Difference, Passes, SuccessRate
from rlcore.runs.tables import success_by_start
from rlcore_tools.runs.record import Values
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.seeds import Seeds, difference_over_seeds, rate_over_seeds
from rlcore_tools.runs.settings import Setting, grouped, is_complete
from rlcore_tools.runs.study import exclusion_reason

CONFIDENCE = 0.95
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Seed:
    """A finished and evaluated run of a setting.

    Attributes:
        row: row of the run.
        outcomes: final evaluation as `{start: success of each pass}`.
        protocols: digests of its protocol.
    """

    row: Row
    outcomes: Mapping[Hashable, Passes]
    protocols: frozenset[str]

    @property
    def comparable_with(self) -> Hashable:
        """Key that is equal for runs with the same starts and protocol, which alone compare."""
        return frozenset(self.outcomes), self.protocols


@dataclass(frozen=True)
class Ranked:
    """A setting with its success.

    Attributes:
        setting: the setting, with all its runs.
        seeds: runs that are compared: finished, evaluated on the starts and under the protocol of
            most runs, and only the latest run of each seed.
        rate: mean success over `seeds`; None without seeds.
        behind: success of the best setting minus that of this one, paired by start, with an
            interval of 95% confidence for all comparisons together (Bonferroni); None for the best
            setting and those without a rate.
    """

    setting: Setting
    seeds: tuple[Seed, ...] = ()
    rate: SuccessRate | None = None
    behind: Difference | None = None

    @property
    def values(self) -> Values:
        """:attr:`Setting.values`."""
        return self.setting.values

    @property
    def label(self) -> str:
        """:attr:`Setting.label`."""
        return self.setting.label

    @property
    def verdict(self) -> str:
        """ "best", "undecided", or "" for a setting that is worse or has no rate."""
        if self.rate is None:
            return ""
        if self.behind is None:
            return "best"
        return "" if self.behind.lo > 0 else UNDECIDED


@dataclass(frozen=True)
class Ranking:
    """Settings in descending order of their mean success; those without a rate come last.

    Attributes:
        settings: settings of all runs, except those of runs that are left out before grouping.
        left_out: `{run: reason}` of runs that are not compared.
    """

    settings: tuple[Ranked, ...]
    left_out: Mapping[str, str]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys in which settings differ."""
        return tuple(self.settings[0].values) if self.settings else ()

    @property
    def measured(self) -> list[Ranked]:
        """Settings with a rate, the best first."""
        return [setting for setting in self.settings if setting.rate is not None]

    @property
    def tied(self) -> list[Ranked]:
        """Settings that are not significantly worse than the best one, which is not included."""
        return [setting for setting in self.settings if setting.verdict == UNDECIDED]


def ranked(rows: Sequence[Row]) -> Ranking:
    """Group runs into settings, and rank these by mean success.

    Runs are compared on the starts and under the protocol of most evaluated runs. Left out are runs
    that a study pruned, a study's held-out evaluations, runs with a damaged configuration or
    without a final evaluation, and all but the latest run of each seed of a setting.
    """
    left_out: dict[str, str] = {}
    compared = []
    for row in rows:
        complete = is_complete(row)
        reason = exclusion_reason(row.folder) or ("" if complete else "its config.yaml is damaged")
        if not reason:
            compared.append(row)
        elif complete or row.state == "finished":
            left_out[row.name] = reason
    settings = grouped(compared)
    evaluated = [_evaluated_seeds(setting, left_out) for setting in settings]
    frequencies = Counter(seed.comparable_with for seeds in evaluated for seed in seeds)
    if not frequencies:
        return Ranking(tuple(map(Ranked, settings)), left_out)
    common = frequencies.most_common(1)[0][0]
    reference = next(s for seeds in evaluated for s in seeds if s.comparable_with == common)
    measured = []
    others = []
    for setting, seeds in zip(settings, evaluated, strict=True):
        counted = _comparable_seeds(seeds, reference, left_out)
        if counted:
            over = Seeds([seed.outcomes for seed in counted])
            measured.append((setting, counted, over, rate_over_seeds(over)))
        else:
            others.append(Ranked(setting))
    measured.sort(key=lambda entry: -entry[3].rate)
    best = measured[0][2]
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(measured) - 1)
    compared_settings = [
        Ranked(
            setting,
            seeds,
            rate,
            None if over is best else difference_over_seeds(over, best, confidence),
        )
        for setting, seeds, over, rate in measured
    ]
    return Ranking((*compared_settings, *others), left_out)


def _evaluated_seeds(setting: Setting, left_out: dict[str, str]) -> list[Seed]:
    """Return the finished runs of a setting that have a final evaluation, by start time.

    Args:
        left_out: gets the reason for each finished run that is left out, by the run's name.
    """
    seeds = []
    for row in sorted(setting.rows, key=lambda row: row.started):
        if row.state != "finished":
            continue
        try:
            episodes = row.record.after or []
            outcomes: dict[Hashable, Passes] = dict(
                (start, passes) for start, passes in success_by_start(episodes).items()
            )
        except (UserError, ValueError) as error:
            left_out[row.name] = str(error).partition("\n")[0]
            continue
        if outcomes:
            seeds.append(Seed(row, outcomes, frozenset(result.protocol for result in episodes)))
        else:
            left_out[row.name] = "it was not evaluated at its end"
    return seeds


def _comparable_seeds(
    seeds: Sequence[Seed], reference: Seed, left_out: dict[str, str]
) -> tuple[Seed, ...]:
    """Return the runs that are compared: as the reference, and the latest of each seed.

    Args:
        seeds: runs of a setting, by start time.
        reference: a run with the starts and the protocol of most runs.
        left_out: gets the reason for each run that is left out, by the run's name.
    """
    counted: dict[Any, Seed] = {}
    for seed in seeds:
        if seed.comparable_with != reference.comparable_with:
            records = reference.row.record, seed.row.record
            rules = protocol_difference(*(record.protocol for record in records))
            left_out[seed.row.name] = (
                "it was evaluated on other starts, or by other rules: "
                f"{rules or 'a file does not say which'}"
            )
            continue
        earlier = counted.get(seed.row.seed)
        if earlier is not None:
            left_out[earlier.row.name] = f"{seed.row.name} has the same seed, and is later"
        counted[seed.row.seed] = seed
    return tuple(counted.values())
