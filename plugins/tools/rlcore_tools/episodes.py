"""Write evaluated episodes of a checkpoint as a data set, with an observation before each env step.

An evaluation renders one observation per decision (chunk of actions). So each episode is played
twice: once with the policy, as it was evaluated, and once more by repeating its actions one step at
a time. An error is raised unless the second pass reproduces the states that the policy observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from rlcore.api import Assembly, CheckedEnv, Checkpoint, Trace, build_checked_env, play_episodes
from rlcore.contracts.errors import ConfigError, VerificationError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.demonstrations.datasets import format_of
from rlcore.runs.tables import EpisodeResult
from rlcore_tools.failures import run_of

WHICH = ("successes", "failures", "all")
FORMAT = "lerobot"


def write(assembly: Assembly, *, which: str, form: str, dest: str) -> tuple[int, int]:
    """Write the episodes of the evaluation stored for the checkpoint `actor.model.model_path`.

    Args:
        assembly: assembly as `rlcore replay` builds it: one env, in this process.
        which: one of :data:`WHICH`.
        form: registered name of a data set format.
        dest: target folder. Episodes that an existing data set in it lacks are appended.

    Returns:
        (number of episodes written by this call, number of successes among them).

    Raises:
        ConfigError: there are no such episodes, or the folder holds something else.
        VerificationError: an episode does not have the evaluated outcome or states.
    """
    config = assembly.config
    spec = assembly.env_specs["eval"]
    run = run_of(assembly)
    checkpoint = run.checkpoint()
    rows = [row for row in run.evaluated(checkpoint) if which in ("all", _outcome(row))]
    if not rows:
        raise ConfigError(
            f"{checkpoint.path} has no evaluated episodes{'' if which == 'all' else f', {which}'}",
            hint=f"rlcore eval {checkpoint.path}",
        )
    evaluated = {Episode(spec.tasks.index(row.task), row.trial, row.replica): row for row in rows}
    path = Path(dest).expanduser()
    seed = config.runner.seed
    data_format = format_of(path, form)
    with (
        data_format.write(path, spec, config.collect, seed=seed, interpreters=()) as writer,
        closing(build_checked_env(config, "eval", 1)[0]) as env,
    ):
        missing = [episode for episode in evaluated if episode not in writer.episodes()]
        for episode, trace in _replay_all(assembly, missing, checkpoint, evaluated):
            writer.add(stepped(env, spec, episode, trace))
    return len(missing), sum(evaluated[episode].success for episode in missing)


def stepped(env: CheckedEnv, spec: EnvSpec, episode: Episode, trace: Trace) -> Demonstration:
    """Repeat an episode's actions one step at a time, recording the observation before each step.

    Args:
        env: an env with one row.
        trace: trace of the episode, recorded while the policy played it.

    Raises:
        VerificationError: the state before a decision differs from the one the policy observed.
    """
    observation = env.reset([0], [episode])
    success = False
    frames: dict[str, list[np.ndarray]] = {camera.name: [] for camera in spec.cameras}
    states = []
    actions = []
    for decision, valid in enumerate(trace.arrays["valid"]):
        recorded = trace.arrays["states"][decision]
        if not np.array_equal(observation["states"][0], recorded):
            raise VerificationError(
                f"episode {tuple(episode)} is not reproduced by its actions: the state before "
                f"decision {decision} differs",
                hint="episodes of a nondeterministic env can't be exported; use rlcore replay",
            )
        for action in trace.arrays["actions"][decision][valid]:
            for camera, pictures in frames.items():
                pictures.append(observation["cameras"][camera][0].copy())
            states.append(observation["states"][0].copy())
            actions.append(action)
            result = env.chunk_step(action[None, None])
            observation = result.observation
            success = success or bool(result.success[0])
    return Demonstration(
        episode=episode,
        instruction=trace.sentence,
        frames={camera: np.stack(pictures) for camera, pictures in frames.items()},
        frame_steps=np.arange(len(actions)),
        states=np.stack(states),
        actions=np.stack(actions),
        success=success,
    )


def _replay_all(
    assembly: Assembly,
    episodes: Sequence[Episode],
    checkpoint: Checkpoint,
    evaluated: dict[Episode, EpisodeResult],
) -> Iterator[tuple[Episode, Trace]]:
    """Play each episode again with the policy and yield its trace.

    Raises:
        VerificationError: success or length differs from the evaluation.
    """
    replays = play_episodes(assembly, episodes, checkpoint, record=False)
    for episode, replay in zip(episodes, replays, strict=True):
        before = evaluated[episode]
        after = replay.result
        if (before.success, before.length) != (after.success, after.length):
            raise VerificationError(
                f"{before.task}, trial {before.trial}: the evaluation has {_outcome(before)} of "
                f"{before.length} steps, the replay {_outcome(after)} of {after.length}",
                hint="a replay is bit-identical only with the run's settings and versions, and if "
                "the run fixed rollout.forward_batch",
            )
        yield episode, replay.trace


def _outcome(row: EpisodeResult) -> str:
    return "successes" if row.success else "failures"
