"""Cells of a set's table, and the file that keeps what was measured of each.

A cell is kept as one small file, so that a table can be completed on another day from the cells
that the repository has. A cell counts as finished while the code that played it is unchanged.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from parts.learning.sets import ROOT
from rlcore.api import Evaluation, SavedRun
from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import write_text
from rlcore.runs.statistics import Passes
from rlcore.runs.tables import EpisodeResult, success_by_start
from rlcore.training.control_work import ControlWork

START = "start"
DEMONSTRATIONS = "control-demonstrations"
OWN_SUCCESSES = "control-own-successes"
CONTROLS = (DEMONSTRATIONS, OWN_SUCCESSES)
CODE = (
    "rlcore",
    "plugins",
    "configs/experiment/*_expo_pi0_tiny.yaml",
    "configs/experiment/*_expo_openvlaoft_tiny.yaml",
    "benchmarks/experiment",
    "benchmarks/sets.yaml",
    "benchmarks/experts.json",
    "benchmarks/parts/learning/cells.py",
    "benchmarks/parts/learning/runs.py",
    "benchmarks/parts/learning/schedule.py",
    ":(exclude,glob)plugins/**/tests/**",
    ":(exclude,glob)**/*.md",
)
"""Files and folders that decide what a cell measures, as pathspecs of git."""
CHANGED = "-changed"
"""End of :func:`code_commit` for files that no commit has."""
PACKAGES = {"metaworld": ("mujoco", "metaworld"), "maniskill": ("mani_skill", "sapien")}
"""Packages whose versions are kept with a cell beside torch's, by `env_type`."""

Outcomes = Mapping[tuple[str, int], Passes]


@dataclass(frozen=True, order=True)
class Cell:
    """A row of a set's table.

    Attributes:
        set: name of the set.
        seed: the run's `runner.seed`.
        demonstrations: demonstrations of each task.
        episodes: training episodes; 0 for the start, which all numbers of episodes share.
        run: the start, a control, or an arm.
    """

    set: str
    seed: int
    demonstrations: int
    episodes: int
    run: str

    @property
    def start(self) -> Cell:
        """The start that the cell began from."""
        return Cell(self.set, self.seed, self.demonstrations, 0, START)

    @property
    def name(self) -> str:
        """Name of the cell's file and of its run's folder."""
        episodes = f"-{self.episodes}ep" if self.episodes else ""
        return f"{self.run}-{self.demonstrations}demo{episodes}-seed{self.seed}"


@dataclass(frozen=True)
class Record:
    """What was measured of a cell.

    Attributes:
        commit: last commit that changed :data:`CODE`.
        ended: time of the measurement, UTC.
        start: digest of the weights that the run began from; of a start, those that it ended with.
        starts: `{task: {trial: "01"}}`, one digit for each pass over the held-out starts.
        protocol: digest of the evaluation's protocol, apart from the number of passes.
        curve: (episodes, successes) of each update, of training.
        episodes: number of training episodes.
        seconds: wall seconds of training, without evaluations.
        samples: of an arm, its :func:`policy_work`; of a start, those of all its rounds; of a
            control, those that it was trained on.
        overrides: overrides of a trial.
        versions: versions of torch and :data:`PACKAGES`.
        own_start: like `starts`, of the policy that an arm with another model began from; empty if
            the run began from the start's weights.
        at_plateau: of a start, whether imitation gained nothing more (`sft.until=plateau`); None of
            other cells, and of a start that was kept before this was.
    """

    commit: str
    ended: str
    start: str
    starts: Mapping[str, Mapping[str, str]]
    protocol: str
    curve: Sequence[tuple[float, float]]
    episodes: int
    seconds: float
    samples: int
    overrides: Sequence[str] = field(default_factory=tuple)
    versions: Mapping[str, str] = field(default_factory=dict)
    own_start: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    at_plateau: bool | None = None

    @property
    def outcomes(self) -> Outcomes:
        """Return the successes of each held-out start, by pass."""
        return {
            (task, int(trial)): [digit == "1" for digit in passes]
            for task, trials in self.starts.items()
            for trial, passes in trials.items()
        }


class Records:
    """The kept cells.

    Args:
        folder: folder with one folder for each set.
        commit: commit of this checkout, see :func:`code_commit`.
    """

    def __init__(self, folder: Path, commit: str) -> None:
        self.folder = folder
        self.commit = commit

    def path(self, cell: Cell) -> Path:
        """Return the cell's file."""
        return self.folder / cell.set / f"{cell.name}.json"

    def read(self, cell: Cell) -> Record | None:
        """Return what is kept of a cell, whatever code has played it."""
        path = self.path(cell)
        return Record(**json.loads(path.read_text())) if path.is_file() else None

    def write(self, cell: Cell, record: Record) -> None:
        """Keep a cell, atomically."""
        self.path(cell).parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path(cell), json.dumps(asdict(record)) + "\n")

    def finished(self, cell: Cell, commit: str | None = None) -> Record | None:
        """Return the record of a cell that code of a commit has played from the kept start.

        Args:
            commit: the commit; None: that of this checkout.
        """
        record = self.read(cell)
        if record is None or record.commit != (commit or self.commit):
            return None
        start = self.read(cell.start)
        return record if start is not None and start.start == record.start else None

    def all(self, set_name: str) -> Iterator[tuple[Cell, Record]]:
        """Yield all cells that are kept of a set."""
        for path in sorted((self.folder / set_name).glob("*.json")):
            run, demos, *episodes, seed = path.stem.rsplit("-", 3 if "ep-" in path.stem else 2)
            cell = Cell(
                set_name,
                int(seed.removeprefix("seed")),
                int(demos.removesuffix("demo")),
                int(episodes[0].removesuffix("ep")) if episodes else 0,
                run,
            )
            yield cell, Record(**json.loads(path.read_text()))


def code_commit() -> str:
    """Return the last commit that changed :data:`CODE`; :data:`CHANGED` follows if files differ."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words, "--", *CODE]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain")
    return git("log", "-1", "--format=%h", "--abbrev=8") + (CHANGED if changed else "")


def digest(weights: Path) -> str:
    """Return a digest of a policy's weights.

    Raises:
        CheckpointError: the folder has none.
    """
    paths = sorted(weights.rglob("*.safetensors"))
    if not paths:
        raise CheckpointError(
            f"{weights} has no *.safetensors, the weights of a start",
            hint=f"remove {weights.parent}: the start is then made again",
        )
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def measured(
    cell: Cell, run: SavedRun, *, commit: str, start: str, overrides: Sequence[str]
) -> Record:
    """Return the record of a cell from the folder of its run, which has ended.

    Args:
        cell: the cell. An arm's run also has the control that imitates its successes.
        run: the run.
        commit, start, overrides: see :class:`Record`.
    """
    summary = json.loads(run.folder.summary.read_text())
    evaluations = run.evaluations()
    curve: list[tuple[float, float]] = []
    if cell.run in (START, DEMONSTRATIONS):
        evaluation = evaluations["sft"]
        history = json.loads((run.folder.path / "sft.json").read_text())
        samples = history["steps"] * history["batch_size"]
        seconds = history["seconds"]  # of all rounds, also of those before a resume
    elif cell.run == OWN_SUCCESSES:
        evaluation = evaluations["control"]
        samples = summary["control"]["samples"]
        seconds = summary["seconds"]["control"]
    else:
        evaluation = _kept(evaluations, "best", "after")
        samples = policy_work(run).samples
        phases = ("rollout", "update", "sync")
        seconds = sum(summary["seconds"].get(phase, 0.0) for phase in phases)
        curve = [
            (line["env/episodes"] or 0, round((line["env/episodes"] or 0) * rate))
            for line in run.metrics()
            if (rate := line.get("env/success_once")) is not None
        ]
    return Record(
        commit=commit,
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        start=start,
        starts=_digits(evaluation.episodes),
        protocol=_protocol(evaluation.protocol),
        curve=curve,
        episodes=summary["episodes"],
        seconds=round(seconds, 1),
        samples=samples,
        overrides=list(overrides),
        versions=versions(run.config().env.eval.env_type),
        own_start=_digits(evaluations["before"].episodes) if "before" in evaluations else {},
        at_plateau=summary.get("plateau", {}).get("reached") if cell.run == START else None,
    )


def versions(env_type: str) -> dict[str, str]:
    """Return the versions of torch and of those of an env's :data:`PACKAGES` that are installed."""
    found = {}
    for package in ("torch", *PACKAGES.get(env_type, ())):
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def policy_work(run: SavedRun) -> ControlWork:
    """Return the work of an arm's run in which steps of networks beside the policy don't count.

    A sample of a small critic costs a fraction of one of the policy, and teaches the policy
    nothing: counted alike, it would lengthen imitation many times over.
    """
    summary = json.loads(run.folder.summary.read_text())
    counted = [
        {"train/actor/trained_samples": line.get("train/actor/policy_samples")}
        for line in run.metrics()
    ]
    return ControlWork.of_run(
        counted,
        env_steps=summary["env_steps"],
        episodes=summary["episodes"],
        num_action_chunks=run.config().actor.model.num_action_chunks,
    )


def _kept(evaluations: Mapping[str, Evaluation], *labels: str) -> Evaluation:
    """Return the first of these evaluations that the run has."""
    return next(evaluations[label] for label in labels if label in evaluations)


def _protocol(rules: Mapping[str, Any]) -> str:
    """Return a digest of the rules of an evaluation, apart from how often each start is played."""
    once = {task: sorted(set(trials)) for task, trials in rules["trials"].items()}
    text = json.dumps({**rules, "trials": once}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digits(results: Iterable[EpisodeResult]) -> dict[str, dict[str, str]]:
    starts: dict[str, dict[str, str]] = {}
    for (task, trial), passes in sorted(success_by_start(results).items()):
        starts.setdefault(task, {})[str(trial)] = "".join(str(int(each)) for each in passes)
    return starts
