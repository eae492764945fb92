"""Cross-field checks: what no single key can tell, found before any worker starts.

Each check is one function from :class:`Facts` to sentences "x must be ..., got ..."; all of them
are reported together. Numbers and places are checked before, as the facts are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rlcore.algo.combinations import refusal
from rlcore.config import limits, places
from rlcore.config.facts import Facts, gather_facts
from rlcore.config.old_names import warn
from rlcore.config.schema import RunConfig
from rlcore.errors import ConfigError
from rlcore.placement import Plan
from rlcore.plugins import Registry, load_plugins
from rlcore.specs import EnvSpec

Check = Callable[[Facts], Iterator[str]]
CHECKS: list[Check] = []


def _check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def check(
    config: RunConfig,
    registry: Registry | None = None,
    plan: Plan | None = None,
    further: Iterable[EnvSpec] = (),
    *,
    collects: bool = False,
) -> Facts:
    """Run all checks.

    Args:
        config: the configuration.
        registry: the plugins; None for those installed.
        plan: the placement; None plans for this machine.
        further: envs beside both of the configuration that the policy is to act in.
        collects: whether demonstrations are collected whatever the configuration says.

    Raises:
        ConfigError: one sentence a problem.
        CheckpointError: demonstrations that are damaged.
        PluginError: a component or tracker that does not exist.
        PlacementError: a placement that can't be carried out.
    """
    registry = registry or load_plugins()
    for tracker in config.runner.logger.logger_backends:
        registry.get("tracker", tracker)
    _raise_all([*limits.violations(config), *places.violations(config)])  # specs rely on these
    facts = gather_facts(config, registry, plan, further)
    _raise_all([sentence for each in CHECKS for sentence in each(facts)])
    if config.collect.path is not None and (collects or _learns_from_demonstrations(config)):
        from rlcore.data.demonstrations import check_folder

        place = Path(config.collect.path)
        check_folder(place, facts.envs["train"], config.collect, seed=config.runner.seed)
    return facts


def _learns_from_demonstrations(config: RunConfig) -> bool:
    """Whether `collect.path` is going to be read. What a resumed run still reads depends on where
    it stood: :func:`rlcore.loop.resume.find` looks at that."""
    runner = config.runner
    return config.sft.enabled and not runner.only_eval and runner.resume_dir is None


def announce(facts: Facts) -> None:
    """Warn of what is no error, but seldom meant. With a model of real size, training from random
    weights is a week lost; a toy run starts so."""
    config = facts.config
    if facts.policy is None:
        return
    if config.actor.model.model_path is None and not config.sft.enabled:
        warn("actor.model.model_path is null: the policy starts from random weights")
    if facts.policy.value_dim and facts.needs is not None and not facts.needs.values:
        warn(
            f"actor.model.add_value_head=true: {config.algorithm.name} trains no critic, so the "
            "value head stays as it is"
        )


def _raise_all(problems: list[str]) -> None:
    if problems:
        raise ConfigError("\n".join(problems), hint="rlcore train --help KEY explains a key")


@_check
def training_ends(facts: Facts) -> Iterator[str]:
    runner = facts.config.runner
    if limits.OFF == runner.max_epochs == runner.max_steps and not runner.only_eval:
        yield (
            "runner.max_epochs or runner.max_steps must be at least 1, or training never ends, "
            f"got {runner.max_epochs} and {runner.max_steps}"
        )


# -- envs and their workers -----------------------------------------------------------------


@_check
def envs_divide_among_workers(facts: Facts) -> Iterator[str]:
    workers, stages = facts.workers["env"], facts.config.rollout.pipeline_stage_num
    for path, env, _ in facts.sides:
        if stages > 0 and env.total_num_envs % (workers * stages):
            yield (
                f"{path}.total_num_envs must be divisible by env workers x stages = {workers} x "
                f"{stages} = {workers * stages}, got {env.total_num_envs}"
            )


@_check
def offloaded_envs_can_be_suspended(facts: Facts) -> Iterator[str]:
    for path, env, spec in facts.sides:
        if env.enable_offload and not spec.suspends:
            yield (
                f"{path}.enable_offload must be false for an env that holds nothing on an "
                f"accelerator, as {spec.name} does under these settings, got true"
            )


@_check
def rollout_workers_hear_an_env(facts: Facts) -> Iterator[str]:
    """A stage of an env process is a stream that one rollout process answers."""
    envs, stages = facts.workers["env"], facts.config.rollout.pipeline_stage_num
    if facts.policy is not None and envs * stages < facts.workers["rollout"]:
        yield (
            "env processes x rollout.pipeline_stage_num must be at least the number of rollout "
            f"processes = {facts.workers['rollout']}, got {envs} x {stages} = {envs * stages}"
        )


@_check
def actors_do_not_share_a_gpu(facts: Facts) -> Iterator[str]:
    """They sum gradients through NCCL, which refuses two ranks of a group on one GPU."""
    plan = facts.placement
    if plan.inventory.kind != "GPU" or facts.config.cluster.backend == "local":
        return
    on: dict[int, list[int]] = {}
    for process in plan.processes("actor"):
        on.setdefault(process.resources[0], []).append(process.rank)
    for gpu, ranks in on.items():
        if facts.policy is not None and len(ranks) > 1:
            yield (
                "cluster.component_placement.actor must give each process a GPU of its own, got "
                f"GPU {gpu} for processes {', '.join(map(str, ranks))}"
            )


@_check
def columns_hold_episodes(facts: Facts) -> Iterator[str]:
    for path, env, _ in facts.sides:
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


@_check
def chunks_fit_episodes(facts: Facts) -> Iterator[str]:
    chunk = facts.config.actor.model.num_action_chunks
    if facts.policy is None or chunk < 1:
        return
    for path, env, _ in facts.sides:
        if chunk > env.max_episode_steps:
            yield (
                "actor.model.num_action_chunks must be at most "
                f"{path}.max_episode_steps = {env.max_episode_steps}, got {chunk}"
            )
        steps = env.max_steps_per_rollout_epoch
        if steps is not None and steps % chunk:  # a column of fixed length ends with a chunk
            yield (
                f"{path}.max_steps_per_rollout_epoch must be divisible by "
                f"actor.model.num_action_chunks = {chunk}, got {steps}"
            )


@_check
def tasks_are_named_once(facts: Facts) -> Iterator[str]:
    for path, env, spec in facts.sides:
        if not spec.tasks or len(set(spec.tasks)) != len(spec.tasks):
            yield f"{path}.tasks must name at least one task, each once, got {env.tasks}"


@_check
def trials_suffice(facts: Facts) -> Iterator[str]:
    path, env, spec = facts.sides[1]
    available = len(spec.trials(env.split))
    if env.trials_per_task > available:
        yield (
            f"{path}.trials_per_task must be at most {available} (the {env.split} trials of "
            f"{spec.name}), got {env.trials_per_task}"
        )


@_check
def evaluation_visits_once(facts: Facts) -> Iterator[str]:
    env = facts.config.env.eval
    if env.rollout_epoch > 1:
        yield (
            "env.eval.rollout_epoch must be 1 (each (task, trial) is visited exactly once; "
            f"trials_per_task asks for more), got {env.rollout_epoch}"
        )


@_check
def splits_are_disjoint(facts: Facts) -> Iterator[str]:
    for path, _, spec in facts.sides:
        if set(spec.train_trials) & set(spec.heldout_trials):
            yield (
                f"train and held-out trials of {spec.name} ({path}) must be disjoint, got "
                f"{spec.train_trials} and {spec.heldout_trials}"
            )


# -- env and policy -------------------------------------------------------------------------


@_check
def envs_agree(facts: Facts) -> Iterator[str]:
    train, evaluation = facts.envs["train"], facts.envs["eval"]
    for what, a, b in (
        ("action entries", train.action_dim, evaluation.action_dim),
        ("state entries", train.state_dim, evaluation.state_dim),
        (
            "cameras",
            [camera.name for camera in train.cameras],
            [camera.name for camera in evaluation.cameras],
        ),
    ):
        if a != b:
            yield f"env.train and env.eval must have the same {what}, got {a} and {b}"


@_check
def policy_fits_env(facts: Facts) -> Iterator[str]:
    policy, env = facts.policy, facts.envs["train"]
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
            f"{policy.name}, got {env.state_dim}"
        )
    if policy.action_horizon < policy.num_action_chunks:
        yield (
            f"actor.model.num_action_chunks must be at most {policy.action_horizon}, the actions "
            f"{policy.name} predicts, got {policy.num_action_chunks}"
        )


# -- algorithm and optimizer ----------------------------------------------------------------


@_check
def algorithm_gets_values(facts: Facts) -> Iterator[str]:
    if facts.needs is None or facts.policy is None:
        return
    if facts.needs.values and facts.policy.value_dim == 0:
        yield (
            f"actor.model.add_value_head must be true: {facts.config.algorithm.name} needs values, "
            "got false"
        )


@_check
def final_frames_are_rendered(facts: Facts) -> Iterator[str]:
    """A value of the observation after the last step is one of its pixels."""
    needs, env = facts.needs, facts.envs["train"]
    if needs is None or env.renders_final:
        return
    if needs.bootstrap_values or (needs.values and facts.config.env.train.auto_reset):
        yield (
            f"env.train.render_final must be true: {facts.config.algorithm.name} bootstraps from "
            f"the final frames of truncated episodes, which {env.name} leaves out, got false"
        )


@_check
def groups_divide_columns(facts: Facts) -> Iterator[str]:
    env, algorithm = facts.config.env.train, facts.config.algorithm
    if facts.needs is None:
        return
    if facts.needs.groups and algorithm.group_size == 1:
        yield f"algorithm.group_size must be at least 2: {algorithm.name} compares episodes, got 1"
    columns = env.total_num_envs * env.rollout_epoch
    if columns % algorithm.group_size:
        yield (
            f"env.train.total_num_envs x rollout_epoch = {columns} must be divisible by "
            f"algorithm.group_size, got {algorithm.group_size}"
        )


@_check
def granularities_go_together(facts: Facts) -> Iterator[str]:
    if facts.policy is None or facts.needs is None:
        return
    algorithm = facts.config.algorithm
    values = facts.policy.value_dim if facts.needs.values else 0  # else nobody looks at them
    reason = refusal(
        reward_type=algorithm.reward_type,
        logprob_type=algorithm.logprob_type,
        value_dim=values,
        num_action_chunks=facts.policy.num_action_chunks,
    )
    if reason is not None:
        yield (
            f"algorithm.reward_type={algorithm.reward_type} and "
            f"logprob_type={algorithm.logprob_type} must go together with a value head of width "
            f"{values}: {reason}"
        )


@_check
def batches_divide(facts: Facts) -> Iterator[str]:
    actor, ranks = facts.config.actor, facts.workers["actor"]
    step = actor.micro_batch_size * ranks
    if facts.policy is not None and step > 0 and actor.global_batch_size % step:
        yield (
            "actor.global_batch_size must be divisible by micro_batch_size x actor ranks = "
            f"{actor.micro_batch_size} x {ranks} = {step}, got {actor.global_batch_size}"
        )


@_check
def cosine_knows_its_end(facts: Facts) -> Iterator[str]:
    optim = facts.config.actor.optim
    if optim.lr_scheduler != "cosine":
        return
    total = optim.total_training_steps
    if total is None or total <= optim.lr_warmup_steps:
        yield (
            "actor.optim.total_training_steps must be more than lr_warmup_steps = "
            f"{optim.lr_warmup_steps} for lr_scheduler=cosine, got {total}"
        )


@_check
def checkpointing_is_supported(facts: Facts) -> Iterator[str]:
    policy = facts.policy
    if policy is None or policy.gradient_checkpointing:
        return
    if facts.config.actor.fsdp_config.gradient_checkpointing:
        yield (
            "actor.fsdp_config.gradient_checkpointing must be false: "
            f"{policy.name} can't recompute activations, got true"
        )


@_check
def policy_can_be_trained(facts: Facts) -> Iterator[str]:
    if facts.policy is not None and facts.needs is not None and facts.policy.evaluation_only:
        yield f"runner.only_eval must be true: {facts.policy.evaluation_only}, got false"


# -- demonstrations -------------------------------------------------------------------------


@_check
def supervision_has_a_teacher(facts: Facts) -> Iterator[str]:
    config = facts.config
    if not config.sft.enabled:
        return
    if config.collect.path is None and not facts.envs["train"].has_expert:
        yield (
            f"collect.path must name a data set: {facts.envs['train'].name} has no scripted "
            "expert, got null"
        )
    if facts.policy is not None and facts.policy.sft is None:
        yield f"sft.enabled must be false: {facts.policy.name} has no supervised loss, got true"
