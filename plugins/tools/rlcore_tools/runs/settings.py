"""Group runs into settings, whose runs differ only in the seed, and rank the settings.

The ranking marks the settings that can't be told apart from the best one.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlcore.config.differences import differences
from rlcore.config.schema_tree import leaves
from rlcore.contracts.errors import UserError
from rlcore.files.symlinks import require_inside
from rlcore.results.statistics import Difference, Passes, SuccessRate
from rlcore.results.tables import read_results, success_by_start
from rlcore_tools.places import last_evaluation
from rlcore_tools.runs.reading import Values
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.rules import unlike_rules
from rlcore_tools.runs.seeds import Seeds, difference_over_seeds, rate_over_seeds
from rlcore_tools.runs.study import beside
from rlcore_tools.text import rounded

MACHINE = "cluster"
APART = (
    "recipe", "runner.seed", "runner.logger", "runner.resume_dir", "runner.auto_resume", MACHINE,
)  # fmt: skip
"""Keys in which runs of a setting may differ; those of `MACHINE` only if no sweep varies them."""
COMPONENTS = {"env": "env_type", "actor.model": "model_type", "algorithm": "name"}
"""Key that chooses the component of each section; the section's other keys depend on it."""
SECTIONS = ("runner", "env", "actor", "algorithm")
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Seed:
    """A finished and evaluated run of a setting.

    Attributes:
        row: row of the run.
        outcomes: final evaluation as `{start: success of each pass}`.
        file: table of the episodes of that evaluation.
    """

    row: Row
    outcomes: Mapping[Hashable, Passes]
    file: Path


@dataclass(frozen=True)
class Setting:
    """Runs that differ only in their seed.

    Attributes:
        values: values of the keys in which settings differ.
        rows: all runs of the setting.
        seeds: runs that are compared: finished, evaluated on the starts and under the protocol of
            most runs, and only the latest run of each seed.
        rate: mean success over `seeds`; None if there are none.
        behind: success of the best setting minus that of this one, paired by start, with an
            interval of 95% confidence for all comparisons together (Bonferroni); None for the best
            setting and those without a rate.
    """

    values: Values
    rows: tuple[Row, ...]
    seeds: tuple[Seed, ...] = ()
    rate: SuccessRate | None = None
    behind: Difference | None = None

    @property
    def label(self) -> str:
        """Text with the values in which settings differ: `KEY=VALUE, ...`."""
        return ", ".join(f"{key}={rounded(value)}" for key, value in self.values.items())

    @property
    def beaten(self) -> bool:
        """Whether the best setting is significantly better: the interval of `behind` is above 0."""
        return self.behind is not None and self.behind.lo > 0


@dataclass(frozen=True)
class Ranking:
    """Settings in descending order of their mean success; those without a rate come last.

    Attributes:
        settings: settings of all runs, except those of runs that are left out before grouping.
        keys: keys in which settings differ.
        left_out: `{run: reason}` of runs that are not compared.
    """

    settings: tuple[Setting, ...]
    keys: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def measured(self) -> list[Setting]:
        """Settings with a rate, the best first."""
        return [one for one in self.settings if one.rate is not None]

    @property
    def tied(self) -> list[Setting]:
        """Settings that can't be told apart from the best one, which is not included."""
        return [one for one in self.measured[1:] if not one.beaten]


def grouped(rows: Sequence[Row]) -> list[Setting]:
    """Group runs into settings, in the order of their first run.

    Runs whose configuration lacks one of `SECTIONS` are left out.
    """
    found: dict[tuple[str, ...], list[Row]] = {}
    varied = _varied_machine(rows)
    texts: dict[tuple[str, int], str] = {}  # by identity: runs share sections, see read_config
    for row in filter(lambda row: _is_whole(row.config), rows):
        for name, section in row.config.items():
            if (name, id(section)) not in texts:
                flat = [one for one in leaves({name: section}) if _tells(one[0], varied)]
                texts[name, id(section)] = repr(flat)
        own = tuple(texts[name, id(section)] for name, section in row.config.items())
        found.setdefault(own, []).append(row)
    first = [own[0] for own in found.values()]
    told = _ordered(first, varied) or _differing([row.config for row in first], varied)
    return [Setting(values, tuple(own)) for values, own in zip(told, found.values(), strict=True)]


def _is_whole(config: Values) -> bool:
    """Check whether a configuration has all of `SECTIONS`.

    A damaged configuration would differ from the others in all keys of a missing section.
    """
    return all(isinstance(config.get(section), Mapping) for section in SECTIONS)


def over_seeds(rows: Sequence[Row]) -> bool:
    """Check whether a setting has several runs, and no two runs of a setting have the same seed."""
    settings = [[row.seed for row in one.rows] for one in grouped(rows)]
    return all(len(set(seeds)) == len(seeds) for seeds in settings) and any(
        len(seeds) > 1 for seeds in settings
    )


def ranked(rows: Sequence[Row]) -> Ranking:
    """Group runs into settings, and rank these by mean success.

    Runs are compared on the starts and under the protocol of most evaluated runs. Left out are runs
    that a study pruned, a study's held-out evaluations, runs with a damaged configuration or
    without a final evaluation, and all but the latest run of each seed of a setting.
    """
    left_out = {row.name: why for row in rows if (why := beside(row.folder))}
    broken = (row for row in rows if row.state == "finished" and not _is_whole(row.config))
    left_out |= {row.name: "its config.yaml is damaged" for row in broken}
    settings = grouped([row for row in rows if row.name not in left_out])
    seeds = {id(one): _evaluated(one.rows, left_out) for one in settings}
    kinds = Counter(kind for each in seeds.values() for kind, _ in each)
    common = kinds.most_common(1)[0][0] if kinds else None
    of_common = [seed.file for each in seeds.values() for kind, seed in each if kind == common]
    measured: list[tuple[Setting, Seeds]] = []
    others: list[Setting] = []
    for one in settings:
        counted: dict[Any, Seed] = {}
        for kind, seed in sorted(seeds[id(one)], key=lambda pair: pair[1].row.started):
            if kind != common:
                unlike = unlike_rules(of_common[0], seed.file)
                left_out[seed.row.name] = (
                    f"it was evaluated on other starts, or by other rules: {unlike}"
                )
                continue
            before = counted.get(seed.row.seed)
            if before is not None:
                left_out[before.row.name] = f"{seed.row.name} has the same seed, and is later"
            counted[seed.row.seed] = seed
        own = tuple(counted.values())
        if own:
            over = Seeds([seed.outcomes for seed in own])
            measured.append((replace(one, seeds=own, rate=rate_over_seeds(over)), over))
        else:
            others.append(one)
    measured.sort(key=lambda pair: -pair[0].rate.rate if pair[0].rate else 0.0)
    keys = tuple(settings[0].values) if settings else ()
    return Ranking((*_against_best(measured), *others), keys, left_out)


def _against_best(measured: Sequence[tuple[Setting, Seeds]]) -> list[Setting]:
    if not measured:
        return []
    (best, first), *others = measured
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(others))
    return [best] + [
        replace(one, behind=difference_over_seeds(over, first, confidence)) for one, over in others
    ]


def _evaluated(rows: Sequence[Row], left_out: dict[str, str]) -> list[tuple[Hashable, Seed]]:
    """Return (kind, seed) of finished runs with a final evaluation.

    The kind consists of the starts and the protocols of the evaluation. Only evaluations of one
    kind are comparable.

    Args:
        left_out: gets the reason for each finished run that is left out, by the run's name.
    """
    found: list[tuple[Hashable, Seed]] = []
    for row in rows:
        if row.state != "finished":
            continue
        file = last_evaluation(row.folder / "eval")
        if file is None:
            left_out[row.name] = "it was not evaluated at its end"
            continue
        try:
            require_inside(row.folder, (file.parent, file))
            episodes = read_results(file)
            outcomes: dict[Hashable, Passes] = dict(success_by_start(episodes).items())
        except (UserError, ValueError) as error:
            left_out[row.name] = str(error).partition("\n")[0]
            continue
        kind = (frozenset(outcomes), frozenset(one.protocol for one in episodes))
        found.append((kind, Seed(row, outcomes, file)))
    return found


def _tells(key: str, varied: tuple[str, ...]) -> bool:
    """Check whether runs that differ in a key belong to different settings."""
    return not _below(key, APART) or _below(key, varied)


def _given(row: Row) -> dict[str, str]:
    """Return the overrides that a sweep gave a run, as text by key."""
    return dict(word.lstrip("+~").partition("=")[::2] for word in row.words)


def _varied_machine(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the keys of `MACHINE` that a sweep varies between its runs, sorted."""
    given: dict[tuple[Path, str], set[str]] = {}
    for row in rows:
        for key, value in _given(row).items():
            if _below(key, (MACHINE,)):
                given.setdefault((row.folder.parent, key), set()).add(value)
    return tuple(sorted({key for (_, key), values in given.items() if len(values) > 1}))


@lru_cache(maxsize=1 << 14)  # the keys of all runs are the same few hundred
def _below(key: str, sections: tuple[str, ...]) -> bool:
    return any(key == one or key.startswith(f"{one}.") for one in sections)


def _ordered(rows: Sequence[Row], varied: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the overrides in which the settings of a sweep differ, as values by key.

    The list is empty if a run has no overrides, or if they don't distinguish all settings.

    Args:
        rows: one run of each setting.
        varied: result of :func:`_varied_machine`.
    """
    given = [_given(row) for row in rows]
    keys = [
        key
        for key in dict.fromkeys(key for each in given for key in each if _tells(key, varied))
        if len({each.get(key) for each in given}) > 1
    ]
    if not all(given) or len({tuple(map(each.get, keys)) for each in given}) < len(rows):
        return []
    return [{key: _typed(each.get(key)) for key in keys} for each in given]


def _typed(text: str | None) -> Any:
    if text is not None:
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text)
    return text


def _differing(configs: Sequence[Values], varied: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the values in which configurations differ, by dotted key, for each configuration.

    If the component of a section differs, only the key that chooses it is returned for the section.
    A key with equal values for `env.train` and `env.eval` is returned once, as `env.*.KEY`.

    Args:
        configs: configuration of one run of each setting.
        varied: result of :func:`_varied_machine`.
    """
    found = (each for each in differences(*configs) if _tells(each.path, varied))
    differing = {each.path: each.values for each in found}
    for section, choice in COMPONENTS.items():
        chosen = [key for key in differing if _below(key, (section,)) and key.endswith(choice)]
        if chosen:
            differing = {
                key: values
                for key, values in differing.items()
                if key in chosen or not _below(key, (section,))
            }
    told: dict[str, Sequence[Any]] = {}
    for key, values in differing.items():
        side, _, rest = key.partition("env.train.")
        if not side and rest and differing.get(f"env.eval.{rest}") == values:
            told[f"env.*.{rest}"] = values
        elif told.get(f"env.*.{key.removeprefix('env.eval.')}") != values:
            told[key] = values
    return [{key: values[i] for key, values in told.items()} for i in range(len(configs))]
