"""Read the trials of a hyperparameter search, and the importance of its keys by Optuna.

`hydra/sweeper=rlcore_optuna` writes the trials to `trials.json` in the folder of the sweep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlcore.config.schema_tree import find
from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import read_mapping
from rlcore_tools.runs.record import Values

TRIALS = "trials.json"
STORAGE = "study.log"
NAME = "rlcore"
HELD_OUT = "heldout-"
"""Prefix of the folder in which a study evaluates its chosen setting on held-out starts."""


@dataclass(frozen=True)
class Study:
    """A hyperparameter search.

    Attributes:
        sweep: folder of its sweep.
        values: contents of `trials.json`.
    """

    sweep: Path
    values: Values

    @classmethod
    def of(cls, sweep: Path) -> Study | None:
        """Read the study of a sweep; None if it is missing or can't be read."""
        with contextlib.suppress(CheckpointError):
            return cls(sweep, read_mapping(sweep / TRIALS))
        return None

    @property
    def trials(self) -> list[Values]:
        """Trials in their order."""
        return _mappings(self.values.get("trials"))

    @property
    def counts(self) -> str:
        """Text with the number of trials, in total and by state."""
        states = [str(trial.get("state")) for trial in self.trials]
        by_state = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return f"{len(states)} of {self.values.get('planned')} trials: {by_state}"

    @property
    def objective(self) -> str:
        """Objective of the search."""
        return str(self.values.get("objective", "success"))

    @property
    def split(self) -> str:
        """Split of starts on which the objective is computed."""
        return str(self.values.get("split", "held-out"))

    @property
    def held_out(self) -> dict[str, Values]:
        """Results on held-out starts.

        `best` and `default` are success rates `{rate, lo, hi, n}`, `difference` is their difference
        `{mean, lo, hi}`. Results that were not measured yet are missing.
        """
        names = {"best": "rate", "default": "rate", "difference": "mean"}
        results = {}
        for name, estimate in names.items():
            figures = find(self.values, f"heldout.{name}", {})
            values = [find(figures, key) for key in (estimate, "lo", "hi")]
            if all(isinstance(value, (int, float)) for value in values):
                results[name] = figures
        return results

    def value_of(self, folder: Path) -> float | None:
        """Return the objective's value for the trial that a run belongs to; None if unknown."""
        for trial in self.trials:
            if folder.name in [run.get("folder") for run in _mappings(trial.get("runs"))]:
                value = trial.get("value")
                return float(value) if isinstance(value, (int, float)) else None
        return None

    def importance(self) -> dict[str, float] | None:
        """Return the importance of each key, from 0 to 1, by Optuna's PED-ANOVA.

        The result is None if Optuna is not installed (`rlcore-tools[optuna]`), if the study's
        storage is missing or unreadable, or if Optuna can't evaluate it, e.g. for too few trials.
        """
        storage = self.sweep / STORAGE
        try:
            import optuna
            from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend
        except ImportError:
            return None
        if not storage.is_file():
            return None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            backend = JournalStorage(JournalFileBackend(str(storage)))
            study = optuna.load_study(study_name=NAME, storage=backend)
            return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
        except Exception:  # too few trials, one key only, a file of another version
            return None


def exclusion_reason(folder: Path) -> str:
    """Return why a run of a study must not be compared with others; empty if it may be."""
    if folder.parent.name.startswith(HELD_OUT) and _study(folder.parent.parent):
        return "an evaluation of the setting that the study chose"
    study = _study(folder.parent)
    for trial in study.trials if study else ():
        for run in _mappings(trial.get("runs")):
            if run.get("folder") == folder.name and run.get("pruned") is not None:
                return f"pruned after update {run['pruned']}"
    return ""


@lru_cache(maxsize=1)
def _study(sweep: Path) -> Study | None:
    return Study.of(sweep)


def _mappings(value: Any) -> list[Values]:
    """Return the mappings in a list; empty if the value is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
