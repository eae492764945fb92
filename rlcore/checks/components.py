"""Check that env, policy and algorithm fit each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rlcore.checks.facts import Facts
from rlcore.checks.subject import Subject
from rlcore.config.schema import RunConfig
from rlcore.contracts.specs import PolicySpec
from rlcore.runs.acting import PLACE, acting_algorithm
from rlcore.runs.env_facts import EnvFacts

CHECKS = Subject()


@CHECKS.add
def envs_agree(facts: Facts) -> Iterator[str]:
    train, evaluation = (EnvFacts.from_spec(facts.envs[side]) for side in ("train", "eval"))
    for fact, train_value, eval_value in train.differences(evaluation):
        yield (
            f"env.train and env.eval must have the same {fact}, got {train_value} and "
            f"{eval_value}: env=NAME chooses both, a key is set on both sides "
            "(env.train.KEY=VALUE env.eval.KEY=VALUE)"
        )


@CHECKS.add
def policy_fits_env(facts: Facts) -> Iterator[str]:
    policy = facts.policy
    env = facts.envs["train"]
    if policy is None:
        return
    if policy.action_dim != env.action_dim:
        yield (
            f"actor.model.action_dim must be {env.action_dim}, the action entries of {env.name}, "
            f"got {policy.action_dim}"
        )
    if policy.num_images > len(env.cameras):
        names = ", ".join(camera.name for camera in env.cameras)
        yield (
            f"actor.model.num_images_in_input must be at most {len(env.cameras)}, the cameras of "
            f"{env.name} ({names}), got {policy.num_images}"
        )
    if 0 < policy.state_dim < env.state_dim:
        yield (
            f"the state of {env.name} must have at most {policy.state_dim} entries for "
            f"{policy.name}, got {env.state_dim}: choose a wider model, or another env "
            "(rlcore train --help actor.model, --help env)"
        )
    if policy.action_horizon < policy.num_action_chunks:
        yield (
            f"actor.model.num_action_chunks must be at most {policy.action_horizon}, the actions "
            f"{policy.name} predicts, got {policy.num_action_chunks}"
        )


@CHECKS.add
def policy_was_trained_there(facts: Facts) -> Iterator[str]:
    """Check that the checkpoint was trained with the state, actions and cameras of `env.train`.

    Equal shapes are not enough, because the entries may have another meaning. The check is skipped
    with supervised training, which trains the policy on this env's entries.
    """
    trained = facts.trained_in
    env = facts.envs["train"]
    policy = facts.policy
    if trained is None and policy is not None and policy.states:
        trained = EnvFacts.from_spec(replace(env, name="its data set", states=policy.states))
    if trained is None or facts.config.sft.enabled:
        return
    for fact, trained_value, value in trained.differences(EnvFacts.from_spec(env)):
        yield (
            f"{fact} of env.train must be those with which actor.model.model_path was trained, "
            f"{trained_value} of {trained.env}, got {value} of {env.name}: set it so, start from "
            "another checkpoint, or train this one again with sft.enabled=true"
        )


@CHECKS.add
def algorithm_gets_values(facts: Facts) -> Iterator[str]:
    if facts.needs is None or facts.policy is None:
        return
    if not facts.policy.has_logprobs:
        return  # algorithm_gets_what_it_learns_from says so, and a value head would not help
    if facts.needs.values and facts.policy.value_dim == 0:
        yield (
            f"actor.model.add_value_head must be true: {facts.config.algorithm.name} needs values, "
            "got false"
        )


@CHECKS.add
def final_frames_are_rendered(facts: Facts) -> Iterator[str]:
    """Check that the env renders final frames where the algorithm bootstraps from them.

    The value of the observation after the last step, and the decision that it would lead to, are
    computed from its pixels.
    """
    needs = facts.needs
    env = facts.envs["train"]
    if needs is None or env.renders_final:
        return
    bootstraps = needs.bootstrap_values or needs.final_decisions
    if bootstraps or (needs.values and facts.config.env.train.auto_reset):
        yield (
            f"env.train.render_final must be true: {facts.config.algorithm.name} bootstraps from "
            f"the final frames of truncated episodes, which {env.name} leaves out, got false"
        )


@CHECKS.add
def policy_fits_the_algorithm(facts: Facts) -> Iterator[str]:
    if facts.policy is not None and facts.needs is not None:
        yield from filter(None, [facts.needs.refusal(facts.policy)])


@CHECKS.add
def algorithm_gets_what_it_learns_from(facts: Facts) -> Iterator[str]:
    needs = facts.needs
    policy = facts.policy
    config = facts.config
    if needs is None or policy is None:
        return
    name = config.algorithm.name
    if needs.policy_ema is not None and (needs.exact_logprobs or not 0 < needs.policy_ema <= 1):
        yield (
            f"algorithm must not be {name}: its AlgorithmNeeds.policy_ema must be in (0, 1], and "
            "None for an algorithm that compares log-probs (exact_logprobs), because the average "
            f"of the weights acts, got {needs.policy_ema}"
        )
    if needs.exact_logprobs and not policy.has_logprobs:
        yield (
            f"algorithm must not be {name}, which compares log-probs: the decisions of "
            f"{policy.name} have none"
        )
    if needs.imitation and policy.sft_objective is None and not policy.evaluation_only:
        yield f"algorithm must not be {name}, which imitates: {policy.name} has no supervised loss"
    if needs.noise and not policy.noise_shape:
        yield (
            f"algorithm must not be {name}, which gives a policy the noise it starts from: "
            f"{policy.name} takes none"
        )
    if needs.demonstrations and not (config.sft.enabled or config.collect.path):
        yield (
            f"collect.path must name a data set, as these settings of {name} need demonstrations, "
            "or sft.enabled be true, which collects them, got null and false"
        )
    yield from _targets_of_demonstrations(facts, needs.demonstration_chunks, policy)
    undivided = needs.replay or needs.networks or needs.policy_ema is not None
    if undivided and facts.placement.shards > 1:
        yield (
            f"actor.fsdp_config.sharding_strategy must be no_shard with these settings of {name}: "
            "processes that divide parameters can't yet learn from a replay, average weights or "
            "train networks of the algorithm, got "
            f"{config.actor.fsdp_config.sharding_strategy}"
        )


def _targets_of_demonstrations(facts: Facts, chunks: int, policy: PolicySpec) -> Iterator[str]:
    """Check that demonstrations and own episodes have the same rewards and ends, and that frames
    are rendered where targets need them.

    `use_rel_reward` changes no reward of an episode whose only reward is that of its last step.

    Args:
        chunks: n of the n-step targets of demonstrations; 0: the algorithm asks for none.
        policy: gives the env steps of a chunk.
    """
    if not chunks:
        return
    config = facts.config
    env = facts.envs["train"]
    name = config.algorithm.name
    without = "without demonstrations (algorithm.demonstrations=0) it may be"
    if config.env.train.ignore_terminations:
        yield (
            f"env.train.ignore_terminations must be false: {name} learns from demonstrations as "
            f"episodes that end with success, got true; {without}"
        )
    if env.dense_reward:
        yield (
            f"env.train must reward success alone (env.train.reward=sparse), as {name} takes "
            f"demonstrations to be rewarded, and {env.name} has other rewards; {without} any"
        )
    steps = chunks * policy.num_action_chunks
    if config.collect.path is None and steps % config.collect.stride:
        yield (
            f"collect.stride must divide the {steps} env steps of a target ({chunks} x "
            f"actor.model.num_action_chunks), as no frame is rendered at its end otherwise, got "
            f"{config.collect.stride}; {without} any"
        )


@CHECKS.add
def acting_networks_are_supported(facts: Facts) -> Iterator[str]:
    """Check that an evaluation has the algorithm whose networks act with the saved policy.

    Without these networks another policy would be evaluated.
    """
    config = facts.config
    algorithm = acted_with(facts.config)
    if config.runner.only_eval and algorithm and algorithm != config.algorithm.name:
        yield (
            f"algorithm must be {algorithm}, as networks of it act with the policy in "
            f"actor.model.model_path={config.actor.model.model_path}, got "
            f"{config.algorithm.name or 'none'}; a copy without its folder {PLACE} acts alone"
        )


def acted_with(config: RunConfig) -> str | None:
    """Return the algorithm whose networks act with the policy in `actor.model.model_path`.

    None if the policy acts alone, or no checkpoint is loaded.
    """
    path = config.actor.model.model_path
    return None if path is None else acting_algorithm(Path(path))


@CHECKS.add
def policy_can_be_trained(facts: Facts) -> Iterator[str]:
    if facts.policy is not None and facts.needs is not None and facts.policy.evaluation_only:
        yield f"runner.only_eval must be true: {facts.policy.evaluation_only}, got false"


@CHECKS.add
def checkpointing_is_supported(facts: Facts) -> Iterator[str]:
    policy = facts.policy
    if policy is None or policy.has_checkpointing:
        return
    if facts.config.actor.fsdp_config.gradient_checkpointing:
        yield (
            "actor.fsdp_config.gradient_checkpointing must be false: "
            f"{policy.name} can't recompute activations, got true"
        )
