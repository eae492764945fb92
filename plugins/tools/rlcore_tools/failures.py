"""List the failed episodes of a run's last evaluation, each with the command that films it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.api import Checkpoint, SavedRun, open_run
from rlcore.config.schema_tree import find
from rlcore.files.damaged_files import blaming
from rlcore.files.reading import read_yaml
from rlcore.results.tables import EpisodeResult, failures, read_results
from rlcore.run_folder.folder import RunFolder
from rlcore_tools.places import last_evaluation

if TYPE_CHECKING:  # it loads what composes configurations
    from rlcore.api import Assembly

LISTED = 5  # of a terminal; the report has all
FILM = 256  # pixels of a film that one can see something in


def acting(run: SavedRun, name: str | None = None) -> Checkpoint:
    """The checkpoint that played a run's last evaluation, or another one of the run.

    Args:
        run: one that trained; or one of `rlcore eval`, whose policy is a checkpoint of another.
        name: `step_000010`, `best` or `latest`; None: the one `run` was opened by.

    Raises:
        CheckpointError: it is missing or damaged, or the policy is no checkpoint of a run.
    """
    other = None if name or run.named != run.folder.path else _of_another(run.folder)
    return run.checkpoint(name) if other is None else open_run(other).checkpoint()


def run_of(assembly: Assembly) -> SavedRun:
    """The run whose checkpoint is `actor.model.model_path`, as `rlcore replay RUN` sets it."""
    path = assembly.config.actor.model.model_path
    assert path is not None
    return open_run(Path(path).parent)


def has_policy(folder: RunFolder) -> bool:
    """Whether episodes of a run can be played again."""
    return any(folder.checkpoints.glob("step_*")) or _of_another(folder) is not None


def _of_another(folder: RunFolder) -> Path | None:
    """The checkpoint of another run that a run has only evaluated."""
    with blaming(folder.config):
        values = read_yaml(folder.config)
    model = find(values, "actor.model.model_path")
    if not find(values, "runner.only_eval") or not isinstance(model, str):
        return None
    checkpoint = Path(model).parent
    return checkpoint if (checkpoint / "state.json").is_file() else None


def evaluated(run: SavedRun, checkpoint: Checkpoint) -> list[EpisodeResult]:
    """The episodes of a run's evaluation of a checkpoint; empty: it made none."""
    if checkpoint.path.is_relative_to(run.folder.path):
        return run.evaluated(checkpoint)
    return conclusion(run.folder)


def conclusion(folder: RunFolder) -> list[EpisodeResult]:
    """The episodes of the evaluation that a run ended with; empty before there is one."""
    file = last_evaluation(folder.evaluations)
    return read_results(file) if file else []


def commands(folder: RunFolder, results: Sequence[EpisodeResult]) -> list[str]:
    """The line for each episode that films it."""
    return _filming(folder, [_address(one) for one in results])


def lines(folder: RunFolder, results: Sequence[EpisodeResult]) -> Iterator[str]:
    """What a terminal shows of a run's failures, the worst task first."""
    lost = failures(results)
    if not lost or not has_policy(folder):
        return
    yield f"{len(lost)} of {len(results)} episodes failed, worst task first; to film them:"
    all_of_them = [["--failures", str(len(lost))]] if len(lost) > LISTED else []
    asked = [_address(one) for one in lost[:LISTED]] + all_of_them
    yield from (f"  {line}" for line in _filming(folder, asked))


def _address(result: EpisodeResult) -> list[str]:
    words = ["--task", result.task, "--trial", str(result.trial)]
    return words + (["--replica", str(result.replica)] if result.replica else [])


def _filming(folder: RunFolder, asked: Sequence[Sequence[str]]) -> list[str]:
    """`rlcore replay` with these words; in larger frames where the env draws small ones and can
    draw others."""
    size = find(read_yaml(folder.config), "env.eval.image_size")
    larger = ["--size", str(FILM)] if isinstance(size, int) and size < FILM else []
    start = ["rlcore", "replay", _near(folder.path)]
    return [shlex.join([*start, *words, *larger]) for words in asked]


def _near(folder: Path) -> str:
    """A folder as one types it here."""
    near = os.path.relpath(folder)
    return os.path.abspath(folder) if near.startswith("..") else near
