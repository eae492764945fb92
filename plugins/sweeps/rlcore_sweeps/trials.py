"""Keep what a study has tried in `SWEEP/trials.json`: settings, seeds, values, states.

It is written for readers, whenever a batch begins or ends; what the study itself goes on from is
`SWEEP/study.log`, the storage of Optuna.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import read_mapping

FILE, HELD_OUT = "trials.json", "heldout"
TrialState = Literal["running", "complete", "pruned", "failed"]


@dataclass(frozen=True)
class Played:
    """A run of a trial.

    Attributes:
        job: its number in the sweep, which names its note `.jobs/JOB.json`.
        seed: `runner.seed`; None: the recipe's own.
        folder: of the run, in the sweep's folder; empty before it has one.
        value: the objective; None where it has none yet.
        steps: values of evaluations during training, by the number of updates.
        pruned: after how many updates it was ended; None: it was not.
        updates: how many it would have made; None where that is not known.
    """

    job: int
    seed: int | None = None
    folder: str = ""
    value: float | None = None
    steps: dict[str, float] = field(default_factory=dict)
    pruned: int | None = None
    updates: int | None = None


@dataclass(frozen=True)
class Trial:
    """A setting, and what came of it.

    Attributes:
        number: from 0, in the order in which they were proposed.
        batch: those of one batch were proposed together.
        setting: values by key or group.
        state: how far it got.
        value: the mean over its runs; None unless it is complete.
        runs: one for each seed, as far as they were started.
    """

    number: int
    batch: int
    setting: dict[str, Any]
    state: TrialState = "running"
    value: float | None = None
    runs: tuple[Played, ...] = ()


@dataclass(frozen=True)
class Trials:
    """All of a study.

    Attributes:
        objective: what `value` is: an entry of `summary.json`, or a metric.
        split: the starts that it is measured on.
        direction: "maximize" or "minimize".
        sampler, pruner, seed: how settings are proposed and ended.
        planned: how many trials the study is to have.
        seeds: of a trial's runs.
        trials: in order of their numbers.
        best: number of the best complete trial; None before there is one.
        heldout: what it came to on held-out starts, see :mod:`rlcore_sweeps.held_out`; empty
            before that was measured.
    """

    objective: str
    split: str
    direction: str
    sampler: str
    pruner: str
    seed: int
    planned: int
    seeds: tuple[int | None, ...]
    trials: tuple[Trial, ...] = ()
    best: int | None = None
    heldout: dict[str, Any] = field(default_factory=dict)

    def write(self, sweep: Path) -> None:
        """Keep it."""
        write_text(sweep / FILE, json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")

    @classmethod
    def of(cls, sweep: Path) -> Trials | None:
        """Those of a sweep; None where it is no study.

        Raises:
            CheckpointError: the file is damaged.
        """
        file = sweep / FILE
        if not file.is_file():
            return None
        kept = read_mapping(file)
        try:
            trials = tuple(
                Trial(**{**one, "runs": tuple(Played(**run) for run in one["runs"])})
                for one in kept["trials"]
            )
            return cls(**{**kept, "seeds": tuple(kept["seeds"]), "trials": trials})
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{file} is damaged: {error}") from None

    @property
    def over(self) -> bool:
        """Whether nothing is left to play."""
        told = len(self.trials) - self.count("running") == self.planned
        return told and bool(self.heldout or self.best is None or self.split == HELD_OUT)

    def count(self, state: TrialState) -> int:
        """How many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)
