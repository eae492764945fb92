"""Read what a run has left in its folder, and evaluate or replay what it came to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.api.episode import Phase, Played
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, choosing
from rlcore.plugins.registry import load_component

if TYPE_CHECKING:
    from rlcore.results.statistics import SuccessRate
    from rlcore.results.tables import EpisodeResult
    from rlcore.run_folder.checkpoint import Checkpoint
    from rlcore.run_folder.folder import RunFolder

NEEDED_TO_ACT = ("env", "model")


@dataclass(frozen=True)
class Evaluation:
    """An evaluation: its episodes, and the rules they were played under.

    Attributes:
        episodes: a row each.
        protocol: the rules.
        label: "before", "after", "step_000010", ...; "eval" of `rlcore eval`.
    """

    episodes: list[EpisodeResult]
    protocol: Mapping[str, Any] = field(repr=False)
    label: str = "eval"

    @property
    def success(self) -> SuccessRate:
        """The share of episodes that succeeded, how many there are, and its 95% interval."""
        from rlcore.results.statistics import success_rate
        from rlcore.results.tables import success_by_start

        return success_rate([*success_by_start(self.episodes).values()])

    @property
    def rate(self) -> float:
        """The share of episodes that succeeded."""
        return self.success.rate

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95% interval (:func:`rlcore.results.statistics.success_rate`)."""
        return self.success.lo, self.success.hi

    @property
    def failures(self) -> list[EpisodeResult]:
        """The episodes that did not succeed, those of the worst task first."""
        from rlcore.results.tables import failures

        return failures(self.episodes)


@dataclass(frozen=True)
class SavedRun(os.PathLike[str]):
    """A run's folder, to be read. See :func:`open_run`. Where a path of a run is taken, it stands
    for :attr:`named`.

    Attributes:
        folder: where each of its files is.
        named: the path that it was opened by, which may be one of its checkpoints.
    """

    folder: RunFolder
    named: Path

    def __fspath__(self) -> str:
        return str(self.named)

    def config(
        self, *overrides: str, require: Sequence[str] = (), trust: bool = False
    ) -> RunConfig:
        """Its configuration, with changes.

        Args:
            overrides: `key=value`.
            require: groups of which it must name a component.
            trust: allow keys that run code of whoever made the folder.

        Raises:
            ConfigError: the file is damaged, does not fit the installed plugins, or is not trusted.
        """
        from rlcore.config.compose import load

        return load(self.folder.config, overrides, require=require, trust=trust)

    def checkpoint(self, name: str | None = None) -> Checkpoint:
        """One of its checkpoints, checked.

        Args:
            name: `step_000010`, `best` or `latest`; None: the one it was opened by, or the latest.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        from rlcore.run_folder.checkpoint import load_checkpoint, named_checkpoint

        found = self.named if name is None else named_checkpoint(self.folder.checkpoints, name)
        return load_checkpoint(found)

    def config_to_evaluate(
        self, checkpoint: Checkpoint | None, *overrides: str, trust: bool = False
    ) -> RunConfig:
        """Its configuration with a checkpoint as the model, to play and not to train, under a name
        of its own.

        What it writes goes beside the run, wherever that is now: the run's own places may be those
        of another machine, and are not for a folder from elsewhere to decide.

        Args:
            checkpoint: of this run; None: the model that it names, as an evaluation does.
            overrides: changes, which also decide where it is written.
            trust: allow keys that run code of whoever made the folder.
        """
        from rlcore.config.overrides import quote
        from rlcore.run_folder.config_edits import warn_of_edits

        run = self.folder
        model = [] if checkpoint is None else [
            f"actor.model.model_path={quote(checkpoint.policy_path)}", "actor.model.lora_path=null",
            "rollout.model.model_path=null", "rollout.model.lora_path=null",
        ]  # fmt: skip
        own = [
            *model,
            "runner.only_eval=true",
            f"runner.logger.experiment_name={quote(f'{run.name}-eval')}",
            "runner.resume_dir=null",
            f"runner.logger.log_path={quote(run.path.parent)}",
            "collect.path=null",
            "collect.output=null",
            *(f"env.{side}.video_cfg.video_base_dir=null" for side in ("train", "eval")),
        ]
        config = self.config(*own, *overrides, require=NEEDED_TO_ACT, trust=trust)
        warn_of_edits(run)
        return config

    def metrics(self) -> list[dict[str, float | None]]:
        """The lines of `metrics.jsonl`; none if it is not there.

        Raises:
            CheckpointError: it is damaged.
        """
        from rlcore.files.damaged_files import blaming
        from rlcore.run_folder.trackers import read_metrics

        path = self.folder.metrics
        if not path.exists():
            return []
        with blaming(path):
            return read_metrics(path)

    def evaluations(self) -> dict[str, Evaluation]:
        """Its evaluations by label: "before", "after", "step_000010", ...

        Raises:
            CheckpointError: a file is damaged, or leads out of the folder.
        """
        from rlcore.files.atomic import is_partial
        from rlcore.files.damaged_files import damaged
        from rlcore.files.symlinks import require_inside
        from rlcore.results.parquet import read_note
        from rlcore.results.tables import read_results

        folder = self.folder.evaluations
        require_inside(self.folder.path, (folder, *folder.glob("*")))
        found = {}
        for path in sorted(folder.glob("*.parquet")):
            if not is_partial(path.name):
                rules = read_note(path).get("protocol", {})
                if not isinstance(rules, Mapping):
                    raise damaged(path, f"its protocol can't be {rules!r}")
                found[path.stem] = Evaluation(read_results(path), rules, path.stem)
        return found

    def evaluation(self, label: str = "after") -> Evaluation:
        """One of its evaluations.

        Raises:
            CheckpointError: there is none of that label, or it is damaged.
        """
        found = self.evaluations()
        if label not in found:
            raise CheckpointError(
                f"{self.folder.path} has no evaluation {label!r}"
                f"{choosing(label, found, none='none was made yet')}"
            )
        return found[label]

    def episodes(self, label: str = "after") -> list[EpisodeResult]:
        """The episodes of an evaluation; see :meth:`evaluation`."""
        return self.evaluation(label).episodes

    def failures(self, label: str = "after") -> list[EpisodeResult]:
        """Those of them that did not succeed."""
        return self.evaluation(label).failures

    def replay(
        self,
        task: str | int,
        trial: int,
        *overrides: str,
        replica: int = 0,
        checkpoint: str | None = None,
        phase: Phase = "eval",
        trust: bool = False,
    ) -> Played:
        """Play one episode again, in this process, with the same noise: `rlcore replay` without its
        files. Needs `rlcore-tools`.

        Args:
            task, trial, replica: which; the task by its name or number.
            overrides: changes of the configuration.
            checkpoint, trust: see :meth:`checkpoint` and :meth:`config`.
            phase: see :func:`rlcore.api.play_episode`.

        Raises:
            UserError: no such episode or checkpoint, or a worker that failed.
        """
        played: Played = load_component("function", "replay")(
            self, task, trial, *overrides,
            replica=replica, checkpoint=checkpoint, phase=phase, trust=trust,
        )  # fmt: skip
        return played

    def evaluated(self, checkpoint: Checkpoint) -> list[EpisodeResult]:
        """The evaluation of a checkpoint: the one kept with it, or one made between updates; empty
        if there is none."""
        from rlcore.evaluation.record import EPISODES
        from rlcore.results.tables import read_results

        between = self.folder.evaluations / f"{checkpoint.path.name}.parquet"
        for path in (checkpoint.path / EPISODES, between):
            if path.is_file():
                return read_results(path)
        return []


def open_run(path: str | os.PathLike[str]) -> SavedRun:
    """Open the run in a folder, or the run that a checkpoint belongs to.

    Args:
        path: the folder; or what stands for it, as the result of a training does.

    Raises:
        CheckpointError: there is none.
        ConfigError: it is no path.
    """
    from rlcore.run_folder.folder import RunFolder

    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(
            f"a run is named by its folder, got {type(path).__name__}",
            hint='rlcore.open_run("logs/run"), or what rlcore.train returned',
        )
    named = os.fspath(path)
    return SavedRun(RunFolder.containing(named), Path(named).expanduser().absolute())


def protocol_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe briefly how the rules of two evaluations differ; empty if they don't."""
    from rlcore.run_folder.protocol_record import describe_difference

    return describe_difference(one, other)
