"""Check which episodes are played, and that they fit into the columns of a trajectory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from rlcore.checks import held_out
from rlcore.checks.draws import evaluation_draws
from rlcore.checks.facts import Facts
from rlcore.checks.subject import Subject
from rlcore.config.schema import EnvConfig
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import EnvSpec

CHECKS = Subject()


def unplayable(facts: Facts) -> Iterator[ConfigError]:
    """Yield an error for the first env of which no episode can be played.

    Only supervised training does without.
    """
    for path, _, spec in facts.sides:
        if spec.unplayable:
            yield ConfigError(
                f"{path} must be an env whose episodes can be played: {spec.name} "
                f"{spec.unplayable}",
                hint="rlcore sft learns from recorded episodes; evaluation and reinforcement need "
                "env=NAME with the same cameras, states and actions",
            )
            return


def _played(facts: Facts, *names: str) -> Iterator[tuple[str, EnvConfig, EnvSpec]]:
    """Yield those of the named sides whose episodes can be played; without a name, of both."""
    for path, env, spec in facts.sides:
        if not spec.unplayable and (not names or path in names):
            yield path, env, spec


@CHECKS.add
def columns_hold_episodes(facts: Facts) -> Iterator[str]:
    for path, env, _ in _played(facts):
        steps = env.max_steps_per_rollout_epoch
        if steps is None:
            continue
        if steps < env.max_episode_steps:
            yield (
                f"{path}.max_steps_per_rollout_epoch must be at least max_episode_steps = "
                f"{env.max_episode_steps}, got {steps}"
            )
        if steps > env.max_episode_steps and not env.auto_reset:
            yield (
                f"{path}.max_steps_per_rollout_epoch must be {env.max_episode_steps} "
                f"(max_episode_steps) without auto_reset, got {steps}"
            )


@CHECKS.add
def chunks_fit_episodes(facts: Facts) -> Iterator[str]:
    chunk = facts.config.actor.model.num_action_chunks
    if facts.policy is None or chunk < 1:
        return
    for path, env, _ in _played(facts):
        if chunk > env.max_episode_steps:
            yield (
                "actor.model.num_action_chunks must be at most "
                f"{path}.max_episode_steps = {env.max_episode_steps}, got {chunk}"
            )
        steps = env.max_steps_per_rollout_epoch
        if steps is not None and steps % chunk:  # a column of fixed length holds whole chunks
            yield (
                f"{path}.max_steps_per_rollout_epoch must be divisible by "
                f"actor.model.num_action_chunks = {chunk}, got {steps}"
            )


@CHECKS.add
def tasks_are_named_once(facts: Facts) -> Iterator[str]:
    for path, env, spec in _played(facts):
        if not spec.tasks or len(set(spec.tasks)) != len(spec.tasks):
            yield f"{path}.tasks must name at least one task, each once, got {env.tasks}"


@CHECKS.add
def trials_suffice(facts: Facts) -> Iterator[str]:
    for path, env, spec in _played(facts, "env.eval"):
        available = len(spec.trials(env.split))
        if env.trials_per_task > available:
            yield (
                f"{path}.trials_per_task must be at most {available} (the {env.split} trials of "
                f"{spec.name}), got {env.trials_per_task}"
            )


@CHECKS.add
def training_has_trials(facts: Facts) -> Iterator[str]:
    for path, env, spec in _played(facts, "env.train"):
        if not (facts.config.runner.only_eval or spec.trials(env.split)):
            yield (
                f"{path}.split must name trials that {spec.name} has: there are no {env.split} "
                "trials"
            )


@CHECKS.add
def passes_differ(facts: Facts) -> Iterator[str]:
    """Check that repeated evaluation passes can differ: that they draw random numbers.

    A policy that draws none plays the same episodes in every pass.
    """
    env = facts.config.env.eval
    policy = facts.policy
    if policy is None or env.rollout_epoch == 1 or facts.envs["eval"].unplayable:
        return
    if not evaluation_draws(facts.config, policy, facts.acting_needs):
        yield (
            "env.eval.rollout_epoch must be 1 with rollout.eval_deterministic=true: without "
            f"exploration {policy.name} draws nothing, so every pass would play the same episodes; "
            f"trials_per_task asks for more starts, got {env.rollout_epoch}"
        )


@CHECKS.add
def temperature_is_supported(facts: Facts) -> Iterator[str]:
    temperature = facts.config.rollout.eval_temperature
    policy = facts.policy
    if policy is None or policy.has_temperature or temperature in (None, 1):  # 1 changes nothing
        return
    if facts.envs["eval"].unplayable:
        return
    yield (
        f"rollout.eval_temperature must be null or 1: {policy.name} does not sample tokens, "
        f"got {temperature}"
    )


@CHECKS.add
def evaluation_is_held_out(facts: Facts) -> Iterator[str]:
    """Check that a run which trains is evaluated on other starts than those it trains on.

    Success from the starts of training does not show that the policy generalizes.
    """
    config = facts.config
    if config.runner.only_eval or not (facts.needs or config.sft.enabled):
        return
    said = held_out.refusal(config, facts.envs)
    if said is not None:
        yield said


@CHECKS.add
def splits_are_disjoint(facts: Facts) -> Iterator[str]:
    for path, _, spec in facts.sides:
        named = {name.replace("heldout", "held-out"): each for name, each in spec.splits.items()}
        for (one, these), (other, those) in combinations(named.items(), 2):
            if set(these) & set(those):
                yield (
                    f"{one} and {other} trials of {spec.name} ({path}) must be disjoint, got "
                    f"{these} and {those}"
                )
