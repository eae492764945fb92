"""Write evaluated episodes of a checkpoint as a data set: play them again, step by step.

An evaluation renders what its policy sees, a frame a decision; a data set has one before each step.
So each episode is played as it was evaluated, and then its actions again in a fresh env, where each
step is looked at. What the policy saw must be equal there, or the episode is not the one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from rlcore.api import Assembly, Checkpoint, Trace
from rlcore.contracts.errors import ConfigError, VerificationError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.demonstrations.datasets import format_of
from rlcore.results.tables import EpisodeResult
from rlcore_tools.failures import run_of
from rlcore_tools.play_episode import gathered_again
from rlcore_tools.vector_env import CheckedEnv, checked_env

WHICH = ("successes", "failures", "all")
FORMAT = "lerobot"


def write(assembly: Assembly, *, which: str, form: str, dest: str) -> tuple[int, int]:
    """Write the episodes of the evaluation that was kept with `actor.model.model_path`.

    Args:
        assembly: as `rlcore replay` has it: one env, in this process.
        which: one of :data:`WHICH`.
        form: a format of data sets, by its registered name.
        dest: the folder; what is there already is gone on with.

    Returns:
        (episodes written now, of them successes).

    Raises:
        ConfigError: there are no such episodes, or the folder holds something else.
        VerificationError: an episode does not come out as it was evaluated.
    """
    config, spec = assembly.config, assembly.env_specs["eval"]
    run = run_of(assembly)
    checkpoint = run.checkpoint()
    rows = [row for row in run.evaluated(checkpoint) if which in ("all", _kind(row))]
    if not rows:
        raise ConfigError(
            f"{checkpoint.path} has no evaluated episodes{'' if which == 'all' else f', {which}'}",
            hint=f"rlcore eval {checkpoint.path}",
        )
    wanted = {Episode(spec.tasks.index(row.task), row.trial, row.replica): row for row in rows}
    path, seed = Path(dest).expanduser(), config.runner.seed
    kind = format_of(path, form)
    with (
        kind.write(path, spec, config.collect, seed=seed, interpreters=()) as writer,
        closing(checked_env(config, "eval", 1)[0]) as env,
    ):
        left = [episode for episode in wanted if episode not in writer.episodes()]
        for episode, trace in _played(assembly, left, checkpoint, wanted):
            writer.add(stepped(env, spec, episode, trace))
    return len(left), sum(wanted[episode].success for episode in left)


def stepped(env: CheckedEnv, spec: EnvSpec, episode: Episode, trace: Trace) -> Demonstration:
    """An episode with an observation before each of its steps.

    Args:
        env: of one row.
        trace: of the episode as its policy played it.

    Raises:
        VerificationError: what the policy saw is not what the env shows now.
    """
    seen, success = env.reset([0], [episode]), False
    frames: dict[str, list[np.ndarray]] = {camera.name: [] for camera in spec.cameras}
    states, actions = [], []
    for decision, valid in enumerate(trace.arrays["valid"]):
        here = trace.arrays["states"][decision]
        if not np.array_equal(seen["states"][0], here):
            raise VerificationError(
                f"episode {tuple(episode)} is not the same when its actions are repeated: the "
                f"state before decision {decision} is another one",
                hint="such an env can't be exported step by step: rlcore replay",
            )
        for action in trace.arrays["actions"][decision][valid]:
            for name, kept in frames.items():
                kept.append(seen["cameras"][name][0].copy())
            states.append(seen["states"][0].copy())
            actions.append(action)
            result = env.chunk_step(action[None, None])
            seen, success = result.observation, success or bool(result.success[0])
    return Demonstration(
        episode=episode,
        task_description=trace.sentence,
        frames={name: np.stack(kept) for name, kept in frames.items()},
        frame_steps=np.arange(len(actions)),
        states=np.stack(states),
        actions=np.stack(actions),
        success=success,
    )


def _played(
    assembly: Assembly,
    episodes: Sequence[Episode],
    checkpoint: Checkpoint,
    evaluated: dict[Episode, EpisodeResult],
) -> Iterator[tuple[Episode, Trace]]:
    """Each episode as its policy plays it again; it must end as it was evaluated."""
    played = gathered_again(assembly, episodes, checkpoint, record=False)
    for episode, (now, gathered) in zip(episodes, played, strict=True):
        then = evaluated[episode]
        if (then.success, then.length) != (now.success, now.length):
            raise VerificationError(
                f"{then.task}, trial {then.trial}, was evaluated as {_kind(then)} of {then.length} "
                f"steps, and is now {_kind(now)} of {now.length}",
                hint="the same to the bit only with the run's settings and versions, and if it "
                "fixed rollout.forward_batch",
            )
        yield episode, gathered.traces[0]


def _kind(row: EpisodeResult) -> str:
    return "successes" if row.success else "failures"
