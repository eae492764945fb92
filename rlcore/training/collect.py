"""Collect expert demonstrations into a data set: a given number of successes for each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rlcore.contracts.errors import ConfigError, WorkerError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.demonstrations.datasets import format_of, open_dataset
from rlcore.training.assembly import Assembly
from rlcore.training.session import Session, open_session

ATTEMPTS_PER_SUCCESS = 5  # a scripted expert that fails more often than this is broken
# Episodes per sub-env in one request: few, so that progress is shown and written often; more than
# one, so that simulators do not idle long while the last episode of a request is played.
EPISODES_PER_REQUEST = 2


def run(assembly: Assembly) -> Path:
    """Run `rlcore collect`: collect the data set and return its folder."""
    output = assembly.config.collect.output
    with open_session(assembly, with_policy=False) as session:
        path = collect(session, session.folder.demonstrations if output is None else Path(output))
        session.progress.line(f"demonstrations: {path}  (use them with collect.path={path})")
    return path


def provide_demonstrations(session: Session) -> Path:
    """Return the folder of the data set to learn from.

    It is `collect.path` if set, which is only read, or a folder in the run, where it is collected.

    Raises:
        ConfigError: the data set is missing, unfinished, or of another env.
        WorkerError: the expert did not succeed often enough.
    """
    config = session.config
    spec = session.assembly.env_specs["train"]
    if config.collect.path is None:
        return collect(session, session.folder.demonstrations)
    path = Path(config.collect.path)
    _, data = open_dataset(path)
    data.check(spec)
    summary = data.summary()
    session.progress.line(
        f"{summary.demonstrations} demonstrations of {summary.episodes} episodes from {path}"
    )
    for warning in summary.warnings:
        session.progress.line(f"warning: {warning}")
    return path


def collect(session: Session, path: Path) -> Path:
    """Collect a data set, or continue an interrupted one; return its folder.

    The choice of episodes depends on the seed alone, not on the number of workers.

    Raises:
        WorkerError: the expert did not succeed often enough.
        ConfigError: the folder holds another data set, or the env has no expert.
    """
    config = session.config
    spec = session.assembly.env_specs["train"]
    data_format = format_of(path, config.collect.format)
    if not spec.has_expert:
        raise ConfigError(
            f"env {spec.name!r} has no scripted expert, so demonstrations can't be made",
            hint="set collect.path to a data set, or actor.model.model_path to a checkpoint",
        )
    total = config.collect.episodes_per_task * len(spec.tasks)
    with (
        session.clock.measure("demonstrations"),
        session.progress.phase("demonstrations", total=total) as phase,
        data_format.write(
            path,
            spec,
            config.collect,
            seed=config.runner.seed,
            interpreters=[python for python in session.interpreters if python.side == "train"],
        ) as writer,
    ):
        written = writer.episodes()
        successes = Counter(episode.task for episode in written)
        candidates = {}
        missing = {}
        for task in range(len(spec.tasks)):
            starts = _candidates(session, spec, task)
            candidates[task] = [episode for episode in starts if episode not in written]
            missing[task] = max(config.collect.episodes_per_task - successes[task], 0)
        phase.advance(total - sum(missing.values()))
        while any(missing.values()):
            batch = [
                episode for task, count in missing.items() for episode in candidates[task][:count]
            ][: EPISODES_PER_REQUEST * config.env.train.total_num_envs]
            if not batch:
                raise _too_few_successes(spec, missing)
            for episode in batch:
                candidates[episode.task].remove(episode)
            for demonstration in _play(session, batch):
                task = demonstration.episode.task
                if demonstration.success and missing[task]:
                    writer.add(demonstration)
                    missing[task] -= 1
                    phase.advance(1)
    return path


def _candidates(session: Session, spec: EnvSpec, task: int) -> list[Episode]:
    """Return the training starts that the expert may try in a task, in random but keyed order."""
    config = session.config
    trials = spec.trials(config.env.train.split)
    attempts = min(len(trials), config.collect.episodes_per_task * ATTEMPTS_PER_SUCCESS)
    rng = generator(config.runner.seed, "demonstrations", spec.tasks[task])
    picks = rng.choice(len(trials), size=attempts, replace=False)
    return [Episode(task, trials[int(pick)]) for pick in picks]


def _play(session: Session, episodes: Sequence[Episode]) -> list[Demonstration]:
    """Have the expert play episodes; return them in the given order."""
    config = session.config
    demonstrations = session.group.demonstrate(episodes, config.collect, config.runner.seed)
    session.report_recovered(session.group.incidents())
    return demonstrations


def _too_few_successes(spec: EnvSpec, missing: dict[int, int]) -> WorkerError:
    """Return the error for an expert that failed; `missing` has the wanted successes by task."""
    short = {spec.tasks[task]: count for task, count in missing.items() if count}
    return WorkerError(
        f"the expert did not succeed often enough: still missing {short} after "
        f"{ATTEMPTS_PER_SUCCESS} attempts per wanted success",
        hint="raise collect.max_episode_steps, lower collect.action_noise, or raise collect.speed",
    )
