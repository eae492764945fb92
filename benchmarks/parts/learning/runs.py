"""Runs that fill the cells of a set: their commands, and which of them come before which."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rlcore
from parts.learning.cells import (
    DEMONSTRATIONS,
    OWN_SUCCESSES,
    START,
    Cell,
    Record,
    Records,
    digest,
)
from parts.learning.sets import IMITATED, RECIPE, ROOT, TaskSet, is_file
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError

RECIPES = ROOT / "benchmarks/experiment"
MEASURED = (
    "runner.val_before_train=false",  # the start is evaluated once, for all arms of a seed
    "runner.logger.logger_backends=[]",
    "cluster.backend=local",  # one core a run, so that those on other cores don't disturb it
    "cluster.torch_threads=1",
    "env.eval.video_cfg.save_video=false",
)
"""Settings of all runs, which change nothing of what they learn."""
NO_PLATEAU = ("sft.until=max_steps",)
"""Settings of a run that begins from the start in place of training one."""
OWN_START = ("runner.val_before_train=true", "runner.val_sampling=false")
"""Settings of a run that trains a start of its own, which is then evaluated too."""
CONTROL_DOUBLINGS = 2
"""Doublings of the control of demonstrations, which keeps the best of its three rounds on
validation starts: what it unlearns by imitating for too long doesn't count against imitation."""


@dataclass(frozen=True)
class Arm:
    """An arm of sets.yaml, whose comments say what each entry is."""

    settings: Sequence[str]
    recipe: str | None = None

    def missing(self, installed: Mapping[str, Sequence[str]]) -> str:
        """Return in words which component is missing; empty if none is.

        Args:
            installed: options of the groups `algorithm` and `model`.
        """
        for word in self.settings:
            group, _, name = word.partition("=")
            if group in installed and name not in installed[group]:
                return f"{group} {name} is not installed"
        if self.recipe is not None and not (RECIPES / self.recipe).is_file():
            return f"benchmarks/experiment/{self.recipe} is missing"
        return ""


def base(recipe: str) -> list[str]:
    """Return the words that begin all commands on a recipe of sets.yaml: a file of
    :data:`RECIPES`, or the name of a recipe that everyone can run."""
    return [str(RECIPES / recipe) if is_file(recipe) else recipe, *MEASURED]


def episodes_of_update(config: RunConfig) -> int:
    """Return how many episodes an update plays."""
    return config.env.train.total_num_envs * config.env.train.rollout_epoch


@dataclass(frozen=True)
class Table:
    """The cells of a set that share their seed, demonstrations and episodes, and their runs.

    Attributes:
        name: name of the set.
        tasks: the set.
        seed, demonstrations, episodes: see :class:`parts.learning.cells.Cell`.
        arms: arms to play.
        folder: folder of the runs of this code and set.
        overrides: overrides of a trial; those of `algorithm.` are for arms alone.
        recipe: on what the runs are based (:func:`base`), unless their arm names another.
    """

    name: str
    tasks: TaskSet
    seed: int
    demonstrations: int
    episodes: int
    arms: Mapping[str, Arm]
    folder: Path
    overrides: Sequence[str] = field(default_factory=tuple)
    recipe: str = RECIPE

    def cell(self, run: str) -> Cell:
        """Return the cell of a run."""
        episodes = 0 if run == START else self.episodes
        return Cell(self.name, self.seed, self.demonstrations, episodes, run)

    def place(self, run: str) -> Path:
        """Return the folder of a run."""
        return self.folder / self.cell(run).name

    def cells(self, run: str) -> list[Cell]:
        """Return the cells that a run fills."""
        return [self.cell(run), *([self.cell(OWN_SUCCESSES)] if run == IMITATED else [])]

    def next_runs(self, wanted: Sequence[str], records: Records) -> list[str]:
        """Return the runs that can be played now: those that miss a cell and wait for no other.

        The start comes first, as long as something is to begin from its weights; the control of
        demonstrations comes last, as its work is that of the arm with most of it.

        Args:
            wanted: arms and controls. A control of own successes is played with its arm.
            records: the finished cells.
        """
        imitated = {IMITATED} if OWN_SUCCESSES in wanted else set()
        arms = [name for name in self.arms if name in {*wanted, *imitated}]
        missing = [name for name in arms if not all(map(records.finished, self.cells(name)))]
        control = DEMONSTRATIONS in wanted and not missing and not self.is_long_enough(records)
        begins = bool(missing or control)
        if not records.finished(self.cell(START)) or (begins and not self.has_start(records)):
            return [START]
        return missing or ([DEMONSTRATIONS] if control else [])

    def has_start(self, records: Records) -> bool:
        """Return whether the weights of the start's record are on this machine."""
        place = self.place(START)
        record = records.finished(self.cell(START))
        if record is None or not (place / "summary.json").is_file():
            return False
        try:
            return digest(place / "sft") == record.start
        except CheckpointError:
            return False

    def is_long_enough(self, records: Records) -> bool:
        """Return whether the control of demonstrations has the work of every arm, or no arm has
        been played."""
        work = self.work(records)
        control = records.finished(self.cell(DEMONSTRATIONS))
        return work == 0 or (control is not None and control.samples >= work)

    def work(self, records: Records) -> int:
        """Return the samples of the finished arm with most work, of those with the start's model
        (:func:`parts.learning.cells.policy_work`)."""
        finished: list[Record | None] = [
            records.finished(self.cell(name))
            for name, arm in self.arms.items()
            if arm.recipe is None
        ]
        return max((record.samples for record in finished if record is not None), default=0)

    def command(self, run: str, records: Records) -> list[str]:
        """Return the words of `rlcore` for a run.

        Raises:
            ConfigError: the number of episodes is not a multiple of an update's.
        """
        place = [
            f"runner.logger.log_path={self.folder}",
            f"runner.logger.experiment_name={self.place(run).name}",
        ]
        verb = "train" if run in self.arms else "sft"
        return [verb, *self._settings(run, records), *place]

    def _settings(self, run: str, records: Records) -> list[str]:
        start = self.place(START)
        demonstrations = f"collect.path={start / 'demonstrations'}"
        weights = f"actor.model.model_path={start / 'sft'}"
        # keys of an arm's algorithm say nothing to runs that imitate
        shared = [word for word in self.overrides if not word.startswith("algorithm.")]
        if run == START:
            return [*self._base(), *shared]
        if run == DEMONSTRATIONS:
            batch_size = json.loads((start / "sft.json").read_text())["batch_size"]
            first = math.ceil(self.work(records) / batch_size / 2**CONTROL_DOUBLINGS)
            rounds = [f"sft.max_steps={first}", f"sft.max_doublings={CONTROL_DOUBLINGS}"]
            return [*self._base(), *shared, weights, demonstrations, *rounds]
        arm = self.arms[run]
        words = [*self._base(arm.recipe), *arm.settings, *self.overrides, demonstrations]
        if arm.recipe is None:
            words += [weights, *NO_PLATEAU, "sft.max_steps=0"]
        else:
            words += OWN_START
        if run == IMITATED:
            words.append("sft.control=own_successes")
        config = rlcore.compose(*words, draft=True)
        updates = self._updates(config)
        words.append(f"runner.max_epochs={updates}")
        return [*words, "runner.auto_resume=true"]

    def _base(self, recipe: str | None = None) -> list[str]:
        tasks = ",".join(self.tasks.tasks)
        return [
            *base(recipe or self.recipe),
            f"env.*.tasks=[{tasks}]",
            f"env.*.max_episode_steps={self.tasks.limit}",
            f"collect.episodes_per_task={self.demonstrations}",
            f"runner.seed={self.seed}",
        ]

    def _updates(self, config: RunConfig) -> int:
        """Return the number of updates that play the episodes."""
        update = episodes_of_update(config)
        if self.episodes % update:
            raise ConfigError(
                f"--episodes must be a multiple of {update}, the episodes of an update, got "
                f"{self.episodes}"
            )
        return self.episodes // update
