"""Run all checks: numbers and folders first, then the checks that need the facts of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

from rlcore.checks import (
    async_loop,
    components,
    episodes,
    instruction_warnings,
    limits,
    places,
    processes,
    updates,
)
from rlcore.checks.demonstrations import check_starts, check_supervised
from rlcore.checks.facts import Facts, env_spec, gather_facts, plan_run
from rlcore.checks.further_sides import FORGETTING, further_sides
from rlcore.checks.ineffective_keys import unread
from rlcore.checks.subject import Check
from rlcore.config import schema_tree
from rlcore.config.ranges import range_violations
from rlcore.config.schema import ClusterConfig, RunConfig
from rlcore.config.schema.actor import NO_SHARD
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError, PluginError, UserError, collect_errors, join_errors
from rlcore.contracts.specs import EnvSpec
from rlcore.placement import Inventory, Node, Plan, find_inventory, make_plan
from rlcore.plugins.extras import install_command
from rlcore.plugins.registry import Registry, load_plugins
from rlcore.runs.env_facts import EnvFacts

EXPLAINED = "rlcore train --help KEY explains a key"
CHECKS: tuple[Check, ...] = (
    *processes.CHECKS,
    *episodes.CHECKS,
    *components.CHECKS,
    *updates.CHECKS,
    *async_loop.CHECKS,
)


def check(
    config: RunConfig,
    registry: Registry | None = None,
    plan: Plan | None = None,
    further: Mapping[str, RunConfig] | None = None,
    *,
    collects: bool = False,
) -> Facts:
    """Run all checks, and return the facts of the run.

    Args:
        config: the configuration.
        registry: the plugins; None for those installed.
        plan: the placement; None plans one for the machines of the cluster.
        further: further configurations whose `env.eval` the policy will act in, by the name of
            their side; they are checked as well.
        collects: whether demonstrations are collected whatever the configuration says.

    Raises:
        ConfigError: invalid or incompatible settings, with one sentence per problem.
        CheckpointError: demonstrations are damaged.
        PluginError: a component or tracker does not exist or lacks a package, or no plugin writes
            the videos that `save_video` asks for.
        PlacementError: the placement can't be carried out.
    """
    registry = registry or load_plugins()
    facts, errors = survey(config, registry, plan, further, collects=collects)
    errors = [*lacking_trackers(config, registry), *errors]
    if errors or facts is None:
        raise join_errors(errors)
    return facts


def survey(
    config: RunConfig,
    registry: Registry,
    plan: Plan | None = None,
    further: Mapping[str, RunConfig] | None = None,
    *,
    collects: bool = False,
    only_look: bool = False,
) -> tuple[Facts | None, list[UserError]]:
    """Collect all errors of a configuration, and the facts as far as they can be known.

    One error does not hide the others: an invalid key is replaced by its default, an unusable
    checkpoint by none, and checks that depend on an error are skipped.

    Args:
        config, registry, plan, further, collects: as for :func:`check`.
        only_look: as for :func:`rlcore.placement.find_inventory`.

    Returns:
        The facts, None if an env or the placement is invalid; and the errors.
    """
    errors: list[UserError] = [*_lacking_writers(config, registry)]
    numbers = [*range_violations(config), *limits.videos(config)]
    folders = [*places.folder_faults(config)]
    errors += map(_refusal, [*numbers, *folders])
    valid = _with_defaults(config, [*numbers, *folders])
    with collect_errors(errors):
        plan = plan or plan_run(valid, find_inventory(valid.cluster, only_look=only_look), registry)
    others: dict[str, EnvSpec] = {}
    row_errors: list[tuple[str, UserError]] = []
    for name, row in (further or {}).items():
        row_facts, found_errors = survey(row, registry, plan, only_look=only_look)
        row_errors += [(name, error) for error in found_errors]
        if row_facts is not None:
            others[name] = row_facts.envs["eval"]
    with collect_errors(errors):
        for name, side in ({} if further else further_sides(valid, registry)).items():
            others[name] = env_spec(registry, f"env.{name}", side.env.eval)
    facts, refusals = _facts_or_error(valid, registry, plan, others)
    if refusals and FORGETTING in others and valid.env.forgetting.tasks is None:
        # nobody named these tasks, so they must not keep a run from starting
        named = {name: spec for name, spec in others.items() if name != FORGETTING}
        facts_without, refusals_without = _facts_or_error(valid, registry, plan, named)
        if not refusals_without:
            warn(f"forgetting is not measured: {refusals[0].message}")
            facts, refusals = facts_without, []
    errors += refusals
    if facts is not None and not numbers:
        errors += [_refusal(text) for run_check in CHECKS for text in run_check(facts)]
        taught = facts.needs is not None and facts.needs.demonstrations
        with collect_errors(errors):
            if collects or taught or (valid.sft.enabled and not valid.runner.only_eval):
                errors += map(_refusal, check_supervised(facts, collects=collects))
            if not collects:  # also of a run that learns by reinforcement alone
                errors += map(_refusal, check_starts(facts))
    # an error that the configuration has without the row is not reported again for the row
    own = {error.message for error in errors}
    for name, error in row_errors:
        if error.message not in own:
            errors.append(type(error)(f"row {name}: {error.message}", hint=error.hint))
            break
    return facts, errors


def lacking_trackers(config: RunConfig, registry: Registry) -> Iterator[PluginError]:
    """Yield an error for each tracker of the configuration that can't be used."""
    for tracker in config.runner.logger.logger_backends:
        try:
            registry.usable("tracker", tracker)
        except PluginError as error:
            yield type(error)(f"runner.logger.logger_backends: {error.message}", hint=error.hint)


def _refusal(sentence: str) -> ConfigError:
    return ConfigError(sentence, hint=EXPLAINED)


def _with_defaults(config: RunConfig, sentences: Sequence[str]) -> RunConfig:
    """Return the configuration with defaults for the keys that the sentences begin with."""
    if not sentences:
        return config
    valid = deepcopy(config)
    defaults = {key.path: key.default for key in schema_tree.walk(config)}
    for sentence in sentences:
        path = sentence.partition(" ")[0]
        section, _, name = path.rpartition(".")
        vars(schema_tree.value_of(valid, section))[name] = defaults[path]  # sections may be frozen
    return valid


def _facts_or_error(
    config: RunConfig, registry: Registry, plan: Plan | None, others: Mapping[str, EnvSpec]
) -> tuple[Facts | None, list[UserError]]:
    """Return the facts and at most one error.

    If the facts can't be gathered, they are gathered without the checkpoint, then without a policy;
    the error says why. None if that fails too, or there is no plan.
    """
    some_plan = plan or make_plan(ClusterConfig(), Inventory((Node(cpus=1),)), registry)
    model = config.actor.model
    refusals: list[UserError] = []
    fresh = replace(model, model_path=None, lora_path=None)
    for tried in (model, fresh, replace(fresh, model_type="")):
        if tried is not model:
            config = replace(config, actor=replace(config.actor, model=tried))
        with collect_errors(refusals):
            facts = gather_facts(config, registry, some_plan, others)
            return facts if plan else None, refusals[:1]
    return None, refusals[:1]


def _lacking_writers(config: RunConfig, registry: Registry) -> Iterator[PluginError]:
    """Yield an error for each side that saves videos if no plugin writes them.

    The training loop only passes the frames to hooks.
    """
    hooks = registry.manager.hook
    for side, hook in (("train", hooks.rlcore_after_rollout), ("eval", hooks.rlcore_after_eval)):
        saves = config.env.sides[side].video_cfg.save_video
        if saves and not any("films" in impl.argnames for impl in hook.get_hookimpls()):
            yield PluginError(
                f"env.{side}.video_cfg.save_video=true needs a plugin that writes videos, and none "
                "is installed",
                hint=f"{install_command(['tools'])}, or set it to false",
            )


def announce(facts: Facts, *, collects: bool = False, imitates: bool = False) -> None:
    """Warn about settings that are allowed but seldom intended.

    Training from random weights is one of them: right for a toy policy, but a waste of a week of
    accelerator time with a pretrained model.

    Args:
        collects: as for :func:`check`.
        imitates: as for :func:`rlcore.checks.ineffective_keys.unread`.
    """
    config = facts.config
    taught = facts.needs is not None and facts.needs.demonstrations
    for sentence in unread(config, collects=collects, imitates=imitates, taught=taught):
        warn(sentence)
    if facts.policy is None:
        return
    strategy = config.actor.fsdp_config.sharding_strategy
    if strategy != NO_SHARD and config.cluster.backend == "local":
        warn(
            f"actor.fsdp_config.sharding_strategy={strategy} shards nothing with "
            "cluster.backend=local: there is one process"
        )
    elif strategy != NO_SHARD and facts.placement.shards == 1:
        warn(
            f"actor.fsdp_config.sharding_strategy={strategy} shards nothing: each actor process "
            "holds all parameters"
        )
    if config.rollout.sync != "auto" and facts.placement.fused:
        warn(
            f"rollout.sync={config.rollout.sync} does nothing: rollout and actor are one process "
            "over one set of weights"
        )
    for sentence in (
        *processes.offload_has_no_effect(facts),
        *updates.more_than_a_rank_gets(facts),
        *updates.cosine_ends_before_the_run(facts),
        *updates.max_steps_cuts_schedules(facts),
    ):
        warn(sentence)
    is_random = config.actor.model.model_path is None and not facts.policy.evaluation_only
    if is_random and not config.sft.enabled:
        warn("actor.model.model_path is null: the policy starts from random weights")
    if facts.policy.value_dim and facts.needs is not None and not facts.needs.values:
        warn(
            f"actor.model.add_value_head=true: {config.algorithm.name} has no critic, so the "
            "value head is not trained"
        )
    acted_with = components.acted_with(config)
    if facts.needs is not None and acted_with not in (None, config.algorithm.name):
        warn(
            f"networks of algorithm {acted_with} acted with the policy in actor.model.model_path; "
            f"{config.algorithm.name} starts from the policy alone"
        )
    train = facts.envs["train"]
    evaluation = facts.envs["eval"]
    read = facts.policy.num_images
    if 0 < read < len(train.cameras):
        names = [camera.name for camera in train.cameras]
        warn(
            f"{facts.policy.name} reads {read} of {len(names)} cameras "
            f"(actor.model.num_images_in_input): {', '.join(names[:read])}; "
            f"rendered but unused: {', '.join(names[read:])}"
        )
    for name, trained, evaluated in EnvFacts.from_spec(train).rendering_differences(
        EnvFacts.from_spec(evaluation)
    ):
        warn(
            f"{name} is {trained} in env.train and {evaluated} in env.eval: the policy is "
            "evaluated on other pixels than it is trained on"
        )
    for sentence in render_differs(facts, "actor.model.model_path"):
        warn(sentence)
    for note in instruction_warnings.notes(facts):
        warn(note)


def render_differs(facts: Facts, policy: str) -> Iterator[str]:
    """Yield a sentence for each render setting that differs from the policy's training.

    Args:
        policy: name of the policy in messages.
    """
    if facts.trained_in is None:
        return
    train = EnvFacts.from_spec(facts.envs["train"])
    for name, before, current in facts.trained_in.rendering_differences(train):
        yield (
            f"{name} was {before} when {policy} was trained and is {current} in env.train: the "
            "policy sees other pixels"
        )
