"""Check what collection and supervised training need, before a run starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlcore.checks.facts import Facts
from rlcore.checks.further_sides import MAX_PLATEAU_PASSES, PLATEAU_EPISODES, plateau_starts
from rlcore.checks.held_out import evaluated_starts, in_short
from rlcore.config.schema import OWN_SUCCESSES, RunConfig
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.demonstrations.datasets import check_readable, format_of, open_dataset
from rlcore.utils.text import abbreviate_list


def check_supervised(facts: Facts, *, collects: bool = False) -> Iterator[str]:
    """Yield a sentence for each invalid setting.

    Args:
        facts: the facts of the run.
        collects: whether the command only collects demonstrations.

    Raises:
        CheckpointError: the data set is damaged.
        ConfigError: the data is of another env, or an interrupted collection has other settings.
        PluginError: no plugin has the format.
    """
    if facts.config.sft.enabled:
        yield from _check_numbers(facts.config)
        yield from _check_supervision(facts)
        yield from _check_plateau(facts)
    if collects:
        _check_output(facts)
    # which data a resumed run still reads depends on its progress: see check_start
    elif facts.config.runner.resume_dir is None:
        yield from _check_data(facts)


def check_starts(facts: Facts) -> Iterator[str]:
    """Yield a sentence if episodes of training can't begin where demonstrations began.

    Raises:
        UserError: the data set can't be read.
    """
    config = facts.config
    runner = config.runner
    if not runner.demonstration_starts or runner.only_eval:
        return
    if runner.total_updates is None:
        yield (
            "runner.max_epochs must be at least 1, as runner.demonstration_starts falls over it, "
            f"got {runner.max_epochs}"
        )
    if config.collect.path is None:
        if not config.sft.enabled:
            yield (
                "runner.demonstration_starts must be 0 without demonstrations, got "
                f"{runner.demonstration_starts}: sft.enabled=true collects some, and collect.path "
                "names a data set"
            )
    elif runner.resume_dir is None:  # a resumed run may be past these starts: see resume.find
        yield from check_known_starts(facts)


def check_known_starts(facts: Facts) -> Iterator[str]:
    """Yield a sentence if `collect.path` does not say where its demonstrations began.

    Raises:
        UserError: the data set can't be read.
    """
    config = facts.config
    if config.collect.path is None:
        return
    train = facts.envs["train"]
    trials = train.trials(config.env.train.split)
    _, data = open_dataset(Path(config.collect.path))
    tasks_with_starts = {task for task, trial in data.starts(successful=True) if trial in trials}
    missing = [task for task in train.tasks if task not in tasks_with_starts]
    if missing:
        yield (
            f"runner.demonstration_starts must be 0 for collect.path={config.collect.path}, got "
            f"{config.runner.demonstration_starts}: it does not say at which trials of env.train "
            f"its demonstrations of {abbreviate_list(missing)} began; rlcore collect makes one "
            "that does"
        )


def describe_plateau(facts: Facts) -> str:
    """Return a line for `--dry-run`: how `sft.until=plateau` ends training; empty without it."""
    config = facts.config
    if not config.trains_to_plateau:
        return ""
    tasks = len(facts.envs["eval"].tasks)
    trials_and_passes = _plateau_starts(facts)
    if trials_and_passes is None:  # refused by the checks
        return ""
    trials, passes = trials_and_passes
    first = config.sft.max_steps
    return (
        f"supervised training: {first}, {2 * first}, {4 * first}, ... steps, at most "
        f"{first << config.sft.max_doublings}, until success on {tasks * trials} validation starts"
        f"{f', each played {passes} times,' if passes > 1 else ''} stops rising"
    )


def describe_demonstrations(facts: Facts, *, collects: bool) -> list[str]:
    """Return lines for `--dry-run`: which demonstrations are learned from or collected, and what
    seems to be wrong with them.

    Without demonstrations there are none; also if the data set is invalid, which the checks report.

    Args:
        collects: whether the command only collects demonstrations.
    """
    config = facts.config
    train = facts.envs["train"]
    learns = config.sft.enabled or (facts.needs is not None and facts.needs.demonstrations)
    if not collects and (not learns or config.runner.only_eval or config.runner.resume_dir):
        return []
    if not collects and config.collect.path is not None:
        try:
            name, data = open_dataset(Path(config.collect.path))
            summary = data.summary()
        except UserError:
            return []
        found = f"{summary.demonstrations} of its {summary.episodes} episodes"
        return [
            f"demonstrations: {config.collect.path} ({name}), {found}",
            *(f"warning: {warning}" for warning in summary.warnings),
        ]
    target = (collects and config.collect.output) or "the run"
    count = config.collect.episodes_per_task
    return [
        f"demonstrations: collected into {target} by the expert of {train.name}, {count} of each "
        f"of {len(train.tasks)} tasks"
    ]


def _check_numbers(config: RunConfig) -> Iterator[str]:
    """Check the numbers: with a validation split, each task needs two demonstrations."""
    if config.sft.val_fraction == 0:
        if config.sft.patience is not None:
            yield (
                "sft.patience must be null with sft.val_fraction=0, which leaves no validations to "
                f"count, got {config.sft.patience}"
            )
    elif config.collect.path is None and config.collect.episodes_per_task < 2:
        yield (
            "collect.episodes_per_task must be at least 2 with sft.enabled (one of them is for "
            "validation; sft.val_fraction=0 takes none), "
            f"got {config.collect.episodes_per_task}"
        )


def _check_plateau(facts: Facts) -> Iterator[str]:
    """Check that success on validation starts can end training, and nothing else ends it."""
    config = facts.config
    if not config.trains_to_plateau:
        return
    if config.sft.patience is not None:
        yield (
            "sft.patience must be null with sft.until=plateau: success ends training, not the "
            f"validation loss, got {config.sft.patience}"
        )
    if config.sft.max_steps == 0:
        yield "sft.max_steps must be at least 1 with sft.until=plateau, which doubles it, got 0"
    spec = facts.envs["eval"]
    if _plateau_starts(facts) is None:
        yield (
            f"sft.until must be max_steps: success is measured in {PLATEAU_EPISODES} episodes or "
            f"more on validation starts, of which {spec.name} has {len(spec.trials('validation'))} "
            f"of each of {len(spec.tasks)} tasks (a policy that starts from noise may play each up "
            f"to {MAX_PLATEAU_PASSES} times); sft.patience ends training by the validation loss, "
            "got plateau"
        )


def _plateau_starts(facts: Facts) -> tuple[int, int] | None:
    """Return the validation starts of each task for `sft.until=plateau` and the passes over them;
    None if the env has too few."""
    spec = facts.envs["eval"]
    available = len(spec.trials("validation"))
    return plateau_starts(facts.config, len(spec.tasks), available, facts.policy)


def _check_supervision(facts: Facts) -> Iterator[str]:
    """Check that env, policy and actor processes support supervised training."""
    config = facts.config
    train = facts.envs["train"]
    ranks = facts.workers["actor"]
    if config.collect.path is None and not train.has_expert:
        yield f"collect.path must name a data set: {train.name} has no scripted expert, got null"
    policy = facts.policy
    # a policy that reinforcement can't train either is refused once, by `policy_can_be_trained`
    said = facts.needs is not None and policy is not None and policy.evaluation_only
    if policy is not None and policy.sft_objective is None and not said:
        reason = policy.evaluation_only or f"{policy.name} has no supervised loss"
        yield f"sft.enabled must be false: {reason}, got true"
    chunk = config.actor.model.num_action_chunks
    if train.whole_chunks and config.collect.stride != chunk:
        yield (
            f"collect.stride must be actor.model.num_action_chunks = {chunk}, as {train.name} "
            f"carries out a chunk as one motion, got {config.collect.stride}"
        )
    # the replay of each actor process holds its own successes only
    unshared_successes = ranks > 1 and config.cluster.backend != "local" and facts.needs is not None
    if unshared_successes and config.sft.control == OWN_SUCCESSES:
        yield (
            f"sft.control must be demonstrations or null with {ranks} actor processes, got "
            f"{OWN_SUCCESSES}"
        )


def _check_output(facts: Facts) -> None:
    """Check that a collection can be begun or continued in `collect.output`.

    Raises:
        ConfigError: `collect.path` is set, or the folder holds something else.
        CheckpointError: the interrupted collection is damaged.
    """
    config = facts.config
    train = facts.envs["train"]
    if not train.has_expert:
        raise ConfigError(
            f"env.train must be an env with a scripted expert, got {train.name}, which has none",
            hint="collect.path=DATA learns from recorded episodes (docs/your-data.md); "
            "actor.model.model_path=CHECKPOINT starts without demonstrations",
        )
    if config.collect.path is not None:
        raise ConfigError(
            f"collect.path must be null: rlcore collect writes to collect.output, and train and "
            f"sft read collect.path, got {config.collect.path!r}",
            hint=f"collect.output={config.collect.path}, and collect.path=null where a recipe has "
            "one",
        )
    output = None if config.collect.output is None else Path(config.collect.output)
    data_format = format_of(output, config.collect.format)
    if output is not None:
        data_format.check_folder(
            output, facts.envs["train"], config.collect, seed=config.runner.seed
        )


def _check_data(facts: Facts) -> Iterator[str]:
    """Check the data set, and that the evaluation visits none of its starts.

    A data set from elsewhere may have been collected at the trials of the evaluation.
    """
    config = facts.config
    envs = facts.envs
    if config.collect.path is None:
        return
    path = Path(config.collect.path)
    data = check_readable(path, envs["train"], config.collect, seed=config.runner.seed)
    if config.env.eval.allow_training_trials or data.facts.env != envs["eval"].name:
        return
    trained = data.starts()
    shared = [start for start in evaluated_starts(config, envs) if start in trained]
    if shared:
        yield (
            f"env.eval must not visit starts that are among the demonstrations in {path}, got "
            f"{in_short(shared)}; env.eval.allow_training_trials=true evaluates on them anyway"
        )
