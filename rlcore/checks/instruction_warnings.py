"""Warn about instructions that a policy was not trained on.

A policy performs worse under such instructions, and no error and no metric names the cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rlcore.checks import places
from rlcore.checks.doctor_rows import Row, row
from rlcore.checks.facts import Facts
from rlcore.config import instructions
from rlcore.config.schema import RunConfig
from rlcore.config.schema.env import CHECKPOINT, OWN_INSTRUCTIONS
from rlcore.demonstrations.datasets import format_of
from rlcore.runs.env_facts import EnvFacts


def notes(facts: Facts) -> Iterator[str]:
    """Yield warnings about instructions that tasks share or that differ where they should agree.

    Instructions are compared between `env.train`, `env.eval`, the checkpoint's training env and
    the demonstrations, as far as the run uses them.
    """
    config = facts.config
    train, evaluation = (EnvFacts.from_spec(facts.envs[side]) for side in ("train", "eval"))
    yield from dict.fromkeys(_shared_instructions(facts))
    policy_env = train
    where = "in env.train"
    if config.runner.only_eval:
        policy_env = evaluation
        where = "in env.eval"
    else:
        yield from _differing_instructions(train, evaluation, "in env.train", "in env.eval")
    if config.sft.enabled:
        yield from _demonstration_instructions(facts, train)
        return
    if facts.trained_in is not None:
        trained = "when actor.model.model_path was trained"
        yield from _differing_instructions(facts.trained_in, policy_env, trained, where)
    elif _has_unknown_instructions(facts):
        yield (
            "actor.model.model_path does not record the sentences it learned from: it gets those "
            f"of env {train.env} (env.train.sentences={OWN_INSTRUCTIONS}), e.g. "
            f"{next(iter(train.sentences.values()), '')!r}"
        )


def findings(config: RunConfig) -> list[Row]:
    """Return a row if the instructions that a checkpoint was trained on were not found.

    The row lists each place that was searched. One row is enough: instructions missing for one env
    are missing for the other. Instructions to be read from a checkpoint that is still to be
    downloaded give no row, as they are not known yet.
    """
    unknown = CHECKPOINT if places.available(config.actor.model).model_path is None else None
    for side, env in config.active_envs.items():
        if env.sentences in instructions.LOOKED_FOR and env.sentences != unknown:
            searched = instructions.places(
                env.sentences, env.env_type, config.actor.model.model_path
            )
            lines = [
                f"env.{side}.sentences={env.sentences}: no file has the policy's instructions:",
                *(f"{place}: {', '.join(files) or 'none'}" for place, files in searched.items()),
                f"another file: env.{side}.sentences=FILE",
                f"the env's own instructions, on purpose: env.{side}.sentences={OWN_INSTRUCTIONS}",
            ]
            fix = "pip install --no-deps lerobot"
            return [row("sentences", "\n    ".join(lines), "missing", fix)]
    return []


def _has_unknown_instructions(facts: Facts) -> bool:
    """Check whether a checkpoint from elsewhere gets the env's instructions by default."""
    config = facts.config
    spec = facts.envs["train"]
    elsewhere = config.actor.model.model_path is not None
    own = config.env.train.sentences == OWN_INSTRUCTIONS
    return elsewhere and own and not spec.episode_instructions and not spec.open_instructions


def _shared_instructions(facts: Facts) -> Iterator[str]:
    for path, config, spec in facts.sides:
        if isinstance(config.sentences, Mapping):
            for sentence, tasks in instructions.shared(spec):
                both = " and ".join(tasks)
                yield f"{path}.sentences gives {both} the same sentence: {sentence!r}"


def _differing_instructions(
    first: EnvFacts, second: EnvFacts, of_first: str, of_second: str
) -> Iterator[str]:
    different = first.instruction_differences(second)
    if different:
        task, first_sentence, second_sentence = different[0]
        yield (
            f"the sentence of {task} is {first_sentence!r} {of_first} and {second_sentence!r} "
            f"{of_second}"
            + (f", and {len(different) - 1} more tasks differ" if len(different) > 1 else "")
        )


def _demonstration_instructions(facts: Facts, train: EnvFacts) -> Iterator[str]:
    path = facts.config.collect.path
    if path is None:
        return
    data_format = format_of(Path(path))
    if data_format.holds(Path(path)):
        recorded = data_format.read(Path(path)).facts
        yield from _differing_instructions(
            recorded, train, f"in the demonstrations of {path}", "in env.train"
        )
