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
    yield from dict.fromkeys(_shared(facts))
    acts, where = train, "in env.train"
    if config.runner.only_eval:
        acts, where = evaluation, "in env.eval"
    else:
        yield from _unlike(train, evaluation, "in env.train", "in env.eval")
    if config.sft.enabled:
        yield from _of_demonstrations(facts, train)
        return
    if facts.trained_in is not None:
        there = "when actor.model.model_path was trained"
        yield from _unlike(facts.trained_in, acts, there, where)
    elif _untold(facts):
        yield (
            "actor.model.model_path does not say which sentences it learned from: it gets those "
            f"of env {train.env} (env.train.sentences={OWN_INSTRUCTIONS}), e.g. "
            f"{next(iter(train.sentences.values()), '')!r}"
        )


def findings(config: RunConfig) -> list[Row]:
    """Return a row if the instructions that a checkpoint was trained on were not found.

    The row lists each place that was searched. One row is enough: what is missing for one env is
    missing for the other. Instructions to be read from a checkpoint that is still to be downloaded
    give no row, as nothing is known of them yet.
    """
    unknown = CHECKPOINT if places.found(config.actor.model).model_path is None else None
    for side, env in config.active_envs.items():
        if env.sentences in instructions.LOOKED_FOR and env.sentences != unknown:
            looked = instructions.places(env.sentences, env.env_type, config.actor.model.model_path)
            lines = [
                f"env.{side}.sentences={env.sentences}: no file says what the policy learned from:",
                *(f"{where}: {', '.join(files) or 'none'}" for where, files in looked.items()),
                f"another file: env.{side}.sentences=FILE",
                f"the env's own words, on purpose: env.{side}.sentences={OWN_INSTRUCTIONS}",
            ]
            fix = "pip install --no-deps lerobot"
            return [row("sentences", "\n    ".join(lines), "missing", fix)]
    return []


def _untold(facts: Facts) -> bool:
    """Check whether a checkpoint from elsewhere gets the env's instructions by default."""
    config, spec = facts.config, facts.envs["train"]
    elsewhere = config.actor.model.model_path is not None
    own = config.env.train.sentences == OWN_INSTRUCTIONS
    return elsewhere and own and not spec.episode_instructions and not spec.open_instructions


def _shared(facts: Facts) -> Iterator[str]:
    for path, config, spec in facts.sides:
        if isinstance(config.sentences, Mapping):
            for sentence, tasks in instructions.shared(spec):
                both = " and ".join(tasks)
                yield f"{path}.sentences gives {both} the same sentence: {sentence!r}"


def _unlike(first: EnvFacts, second: EnvFacts, where: str, there: str) -> Iterator[str]:
    different = first.instruction_differences(second)
    if different:
        task, here, other = different[0]
        yield (
            f"the sentence of {task} is {here!r} {where} and {other!r} {there}"
            + (f", and {len(different) - 1} more tasks differ" if len(different) > 1 else "")
        )


def _of_demonstrations(facts: Facts, train: EnvFacts) -> Iterator[str]:
    path = facts.config.collect.path
    if path is None:
        return
    there = format_of(Path(path))
    if there.holds(Path(path)):
        facts_there = there.read(Path(path)).facts
        yield from _unlike(facts_there, train, f"in the demonstrations of {path}", "in env.train")
