"""List the failed episodes of a run's last evaluation, each with a command that records a video."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.api import Checkpoint, SavedRun, open_run
from rlcore.config.schema_tree import find
from rlcore.files.reading import read_yaml
from rlcore.runs.folder import RunFolder
from rlcore.runs.tables import EpisodeResult, failures, read_results
from rlcore_tools.run_paths import last_evaluation

if TYPE_CHECKING:  # it loads what composes configurations
    from rlcore.api import Assembly

LISTED = 5  # most failures listed on a terminal; the report lists all
FILM = 256  # side of a readable video frame, in pixels


def run_of(assembly: Assembly) -> SavedRun:
    """Return the run that the checkpoint in `actor.model.model_path` belongs to."""
    path = assembly.config.actor.model.model_path
    assert path is not None
    return open_run(Path(path).parent)


def has_policy(folder: RunFolder) -> bool:
    """Return whether a run has a policy, so that its episodes can be played again."""
    if any(folder.checkpoints.glob("step_*")):
        return True
    return open_run(folder.path).external_checkpoint() is not None


def evaluated(run: SavedRun, checkpoint: Checkpoint) -> list[EpisodeResult]:
    """Return the episodes of a run's evaluation of a checkpoint; empty without one."""
    if checkpoint.path.is_relative_to(run.folder.path):
        return run.evaluated(checkpoint)
    return conclusion(run.folder)


def conclusion(folder: RunFolder) -> list[EpisodeResult]:
    """Return the episodes of a run's final evaluation; empty before it."""
    file = last_evaluation(folder.evaluations)
    return read_results(file) if file else []


def commands(folder: RunFolder, results: Sequence[EpisodeResult]) -> list[str]:
    """Return for each episode the command line that records a video of it."""
    return _replay_commands(folder, [_episode_flags(result) for result in results])


def lines(folder: RunFolder, results: Sequence[EpisodeResult]) -> Iterator[str]:
    """Yield lines for the terminal on a run's failures, the lowest success rate of a task first."""
    failed = failures(results)
    if not failed or not has_policy(folder):
        return
    yield f"{len(failed)} of {len(results)} episodes failed, worst task first; to film them:"
    all_of_them = [["--failures", str(len(failed))]] if len(failed) > LISTED else []
    listed = [_episode_flags(result) for result in failed[:LISTED]]
    yield from (f"  {line}" for line in _replay_commands(folder, listed + all_of_them))


def _episode_flags(result: EpisodeResult) -> list[str]:
    words = ["--task", result.task, "--trial", str(result.trial)]
    return words + (["--replica", str(result.replica)] if result.replica else [])


def _replay_commands(folder: RunFolder, episodes: Sequence[Sequence[str]]) -> list[str]:
    """Return an `rlcore replay` command line for each list of flags.

    `--size` asks for larger frames if the env has a setting `image_size` below :data:`FILM`.
    """
    size = find(read_yaml(folder.config), "env.eval.image_size")
    larger = ["--size", str(FILM)] if isinstance(size, int) and size < FILM else []
    start = ["rlcore", "replay", _shortest_path(folder.path)]
    return [shlex.join([*start, *flags, *larger]) for flags in episodes]


def command_of(folder: RunFolder, name: str) -> str:
    """Return the command line `rlcore NAME RUN` for a run."""
    return shlex.join(["rlcore", name, _shortest_path(folder.path)])


def _shortest_path(folder: Path) -> str:
    """Return a path relative to the working directory, or absolute if it is not inside it."""
    relative = os.path.relpath(folder)
    return os.path.abspath(folder) if relative.startswith("..") else relative
