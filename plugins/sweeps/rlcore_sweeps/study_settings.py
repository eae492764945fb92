"""Define the settings of a study, which Hydra shows below `hydra.sweeper`.

Hydra imports this module with every configuration, so it imports nothing heavy, and reads the types
of its fields, so annotations are real types: no `from __future__ import annotations`.
"""

from dataclasses import dataclass, field
from typing import Any

from rlcore.contracts.errors import ConfigError

DIRECTIONS = ("maximize", "minimize")


@dataclass
class StudySettings:
    """Settings of a study.

    Attributes:
        n_trials: number of settings to try.
        batch_size: trials that are proposed together, so that they can run in parallel.
        seeds: `runner.seed` of the runs of a trial; none: one run, with the recipe's.
        direction: "maximize" or "minimize" the objective.
        sampler, sampler_options: name of a sampler, and keyword arguments of Optuna's class.
        pruner, pruner_options: the same of a pruner; "none": no run is pruned.
        seed: seed of the sampler.
        params: search space by key; overrides of the command line win.
    """

    n_trials: int = 20
    batch_size: int = 2
    seeds: list[int] = field(default_factory=list)
    direction: str = "maximize"
    sampler: str = "tpe"
    sampler_options: dict[str, Any] = field(default_factory=dict)
    pruner: str = "median"
    pruner_options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def run_seeds(self) -> tuple[int | None, ...]:
        """The seed of each run of a trial; None: the recipe's own."""
        return tuple(self.seeds) or (None,)

    def check(self) -> None:
        """Check all settings but `params`.

        Raises:
            ConfigError: names the setting, its value and the choices.
        """
        from rlcore_sweeps.samplers import pruner_of, sampler_of

        for name, number in (("n_trials", self.n_trials), ("batch_size", self.batch_size)):
            if number < 1:
                raise ConfigError(f"hydra.sweeper.{name} must be 1 or more, got {number}")
        if self.direction not in DIRECTIONS:
            raise ConfigError(
                f"hydra.sweeper.direction must be {' or '.join(DIRECTIONS)}, got {self.direction!r}"
            )
        if len({*self.seeds}) < len(self.seeds):
            raise ConfigError(f"sweep.seeds contains a seed twice: {self.seeds}")
        sampler_of(self.sampler, self.sampler_options)
        pruner_of(self.pruner, self.pruner_options)
