"""Keys of `runner`: length of a run, its evaluations, checkpoints, folder and trackers."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema.keys import Settings, When, key


@dataclass
class LoggerConfig(Settings):
    """Where a run's folder is and where its metrics go."""

    log_path: str = key("parent of the run's folder", "logs", place="written")
    project_name: str = key("project name for trackers", "rlcore")
    experiment_name: str = key(
        "name of the run's folder; by default that of the recipe, or else of env, model and "
        "algorithm; -2, -3, ... is added when taken",
        "run",
    )
    logger_backends: list[str] = key("trackers besides metrics.jsonl", [])
    verbose: bool = key("print all that is known of an update", False)
    require_lock: bool = key(
        "refuse a folder whose file system has no flock; false: two commands may then "
        "write to one run at once",
        True,
    )


@dataclass
class RunnerConfig(Settings):
    """Length of a run, its evaluations and checkpoints."""

    seed: int = key("root of all randomness", 0, minimum=0, magnitude_limit=2**63 - 1)
    max_epochs: int = key("policy updates; -1: no limit", 10, minimum=1, disabled=-1)
    max_steps: int = key(
        "env steps after which training ends; -1: no limit",
        -1,
        minimum=1,
        magnitude_limit=10**12,
        disabled=-1,
    )
    loop: str = key(
        "sync: rollouts and updates take turns; async: the episodes of the next update are played "
        "while the actor learns, for algorithms that learn from episodes of earlier weights",
        "sync",
        choices=("sync", "async"),
    )
    max_staleness: int = key(
        "updates by which the acting weights may be behind the actor's; 0: as with loop=sync",
        1,
        minimum=0,
        maximum=1,
        when=When("loop", ("async",)),
    )
    only_eval: bool = key("evaluate the model and stop", False)
    val_before_train: bool = key("evaluate before the first update", True)
    val_sampling: bool = key(
        "before the first update, also evaluate the policy with the model's own noise of training, "
        "without exploration that the algorithm adds, on the same starts, and warn, with a lower "
        "value of the noise, if it succeeds at most half as often",
        False,
        when=(
            When("val_before_train", (True,)),
            When("rollout.eval_deterministic", (True,)),
        ),
    )
    val_check_interval: int = key(
        "updates between evaluations; -1: only before and after", -1, minimum=1, disabled=-1
    )
    save_interval: int | None = key(
        "updates between checkpoints; null: so many that a run that is killed loses at most a "
        "tenth of its updates (of max_epochs, or where max_steps ends it of its env steps; without "
        "either 10 updates); -1: only the last",
        minimum=1,
        disabled=-1,
    )
    keep_last: int | None = key(
        "number of newest checkpoints to keep; null: all, and where save_interval is null too the "
        "newest alone",
        minimum=1,
        when=When("save_interval", unless=(-1,)),
    )
    keep_best: bool = key(
        "also keep one checkpoint for its success, as checkpoints/best: where val_check_interval "
        "is set and env.validation or env.eval visits validation starts, the latest that is not "
        "below the best there (docs/evaluation.md; save_interval is then a multiple of "
        "val_check_interval), with which the run is evaluated in place of "
        "the last; else the best on training starts (mean over the updates since the previous "
        "one), evaluated beside the last",
        False,
        when=When("save_interval", unless=(-1,)),
    )
    demonstration_starts: float = key(
        "share of the episodes of the first update that begin where a demonstration of their task "
        "began, as resets to demonstrated states do (arXiv 1709.10089); it falls to 0 by equal "
        "steps; 0: all begin at starts drawn from env.train.split",
        0.0,
        minimum=0,
        maximum=1,
    )
    demonstration_starts_end: float = key(
        "share of max_epochs from which on no start is that of a demonstration",
        0.5,
        exclusive_minimum=0,
        maximum=1,
        when=When("demonstration_starts", unless=(0,)),
    )
    resume_dir: str | None = key(
        "folder of a run, or of one of its checkpoints, to resume (rlcore resume RUN)",
        place="path",
    )
    auto_resume: bool = key(
        "resume from the last checkpoint when a worker fails, and resume the unfinished run in "
        "this run's folder if there is one",
        False,
    )
    trace: bool = key(
        "write trace.json into the run's folder: when each process computed and when it waited, "
        "for ui.perfetto.dev or chrome://tracing",
        False,
    )
    logger: LoggerConfig = key("folder and trackers", LoggerConfig())

    @property
    def total_updates(self) -> int | None:
        """Return the number of updates after which training ends; None: no limit."""
        return None if self.max_epochs == -1 else self.max_epochs

    def demonstrated_share(self, update: int) -> float:
        """Return the share of the episodes of an update that begin where a demonstration began.

        With s = update / max_epochs it is demonstration_starts (1 - s / demonstration_starts_end),
        and 0 from demonstration_starts_end on.

        Args:
            update: number of updates done before.
        """
        if not self.demonstration_starts:
            return 0.0
        passed = update / self.max_epochs / self.demonstration_starts_end
        return self.demonstration_starts * max(0.0, 1.0 - passed)

    @property
    def overlaps(self) -> bool:
        """Return whether episodes are played while the actor learns."""
        return self.loop == "async" and self.max_staleness > 0

    @property
    def checkpoints_kept(self) -> int | None:
        """Return how many of the newest checkpoints are kept on disk; None: all.

        `keep_last`, or 1 if that and `save_interval` are both None.
        """
        return 1 if self.save_interval is None and self.keep_last is None else self.keep_last
