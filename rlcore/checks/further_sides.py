"""Configure the evaluations of a training run in addition to `env.eval`.

They are on starts of the validation split, to choose a checkpoint and to end supervised training,
and on tasks that are not trained, which measure forgetting. Light.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlcore.checks.draws import evaluation_draws
from rlcore.config.component_specs import algorithm_needs, ask_spec
from rlcore.config.schema import EnvConfig, RunConfig
from rlcore.config.schema.env import OWN_INSTRUCTIONS
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore.plugins.registry import Registry

VALIDATION = "validation"
"""Side with starts for choosing a checkpoint."""
PLATEAU = "plateau"
"""Side with starts on which success decides when supervised training ends (`sft.until`)."""
PLATEAU_EPISODES = 200
"""Fewest episodes of :data:`PLATEAU`, over all tasks: the standard error of a success rate is then
at most 0.036, if each is on a start of its own."""
MAX_PLATEAU_PASSES = 16
"""Most passes over the starts of :data:`PLATEAU` where an env has few. So there are at least 13
starts: passes over fewer would say more of these than of the policy."""
FORGETTING = "forgetting"
"""Side with tasks that are not trained on."""
MAX_CHOSEN_TASKS = 4
"""Most tasks to choose if `env.forgetting.tasks` is not set; they are spread over the env's."""


def further_sides(
    config: RunConfig, registry: Registry, policy: PolicySpec | None = None
) -> dict[str, RunConfig]:
    """Return the configurations whose `env.eval` a training run also plays, by name of the side.

    Empty in a run that only evaluates. Validation starts that choose a checkpoint are played in two
    passes, unless neither the policy nor the algorithm draws, so that both would be equal.

    Args:
        policy: spec of the policy; None: not known, it counts as one that draws.

    Raises:
        UserError: `env.forgetting.tasks` names a task that is trained or does not exist, or a side
            asks for more trials of a task than the env has.
    """
    if config.runner.only_eval:
        return {}
    env = config.env
    sides: dict[str, RunConfig] = {}
    single_pass = replace(
        env.eval, rollout_epoch=1, video_cfg=replace(env.eval.video_cfg, save_video=False)
    )
    if trials := env.validation.trials_per_task:
        passes = 1
        if config.selects_on_validation:
            needs = algorithm_needs(config, registry) if config.algorithm.name else None
            passes = 2 if evaluation_draws(config, policy, needs) else 1
        side = replace(
            single_pass, split="validation", trials_per_task=trials, rollout_epoch=passes
        )
        _require_starts(side, registry, VALIDATION)
        sides[VALIDATION] = _with_eval(config, side)
    if config.trains_to_plateau:
        tasks_played = len(_tasks(env.eval, registry, "env.eval"))
        side = replace(single_pass, split="validation")
        available = _available(side, registry, PLATEAU)
        trials_and_passes = plateau_starts(config, tasks_played, available, policy)
        if trials_and_passes is not None:  # else checks/demonstrations.py refuses
            trials, passes = trials_and_passes
            side = replace(side, trials_per_task=trials, rollout_epoch=passes)
            sides[PLATEAU] = _without_exploration(_with_eval(config, side))
    if tasks := _untrained(config, registry):
        side = replace(single_pass, tasks=tasks, trials_per_task=env.forgetting.trials_per_task)
        if env.forgetting.tasks is None:  # tasks chosen here: play fewer trials, raise no error
            side.trials_per_task = min(side.trials_per_task, _available(side, registry, FORGETTING))
        _require_starts(side, registry, FORGETTING)
        sides[FORGETTING] = _with_eval(config, side)
    return sides


def plateau_starts(
    config: RunConfig, tasks: int, available: int, policy: PolicySpec | None
) -> tuple[int, int] | None:
    """Return the validation starts of each task on which success ends supervised training, and the
    passes over them; None if the env has too few.

    The episodes are at least :data:`PLATEAU_EPISODES` over all tasks, and one on each of
    `env.validation.trials_per_task` starts, if these are more. If the env has fewer starts, a
    policy that starts from noise plays each several times.

    Args:
        tasks: number of tasks of `env.eval`.
        available: validation starts of a task.
        policy: spec of the policy; None: not known, it counts as one that starts from noise.
    """
    configured = config.env.validation.trials_per_task
    needed = -(-PLATEAU_EPISODES // max(tasks, 1))
    if max(needed, configured) <= available:
        return max(needed, configured), 1
    passes = -(-needed // max(available, 1))
    draws = policy is None or policy.starts_from_noise
    if not draws or configured > available or passes > MAX_PLATEAU_PASSES:
        return None
    return available, passes


def _available(side: EnvConfig, registry: Registry, name: str) -> int:
    """Return the number of trials that the env has for each task, in the side's split."""
    spec: EnvSpec = ask_spec(registry, "env", f"env.{name}", side.env_type, side)
    return len(spec.trials(side.split))


def _require_starts(side: EnvConfig, registry: Registry, name: str) -> None:
    """Raise ConfigError if the side asks for more trials of a task than the env has."""
    available = _available(side, registry, name)
    if side.trials_per_task > available:
        raise ConfigError(
            f"env.{name}.trials_per_task must be at most {available} (the {side.split} trials of "
            f"{side.env_type}), got {side.trials_per_task}"
        )


def _with_eval(config: RunConfig, settings: EnvConfig) -> RunConfig:
    changed = replace(config, env=replace(config.env, eval=settings))
    changed.freeze()
    return changed


def _without_exploration(config: RunConfig) -> RunConfig:
    rollout = replace(config.rollout, eval_deterministic=True, eval_temperature=None)
    changed = replace(config, rollout=rollout)
    changed.freeze()
    return changed


def _untrained(config: RunConfig, registry: Registry) -> list[str]:
    """Return the tasks that measure forgetting.

    These are the tasks that the user names. If the user names none and training starts from saved
    weights, evaluates them first, and evaluates a given list of tasks with the env's own
    instructions, up to :data:`MAX_CHOSEN_TASKS` untrained tasks of the same env are chosen.
    """
    env = config.env
    chosen = env.forgetting.tasks
    same_env = env.eval.env_type == env.train.env_type
    if chosen is not None:
        trained = _tasks(env.train, registry, "env.train") if same_env else ()
        for task in chosen:
            if task in trained:
                raise ConfigError(
                    f"env.forgetting.tasks must not name tasks that are trained on, got {task}",
                    hint="name others of the env, or [] for none",
                )
        return list(chosen)
    evaluates_first = config.actor.model.model_path is not None and config.runner.val_before_train
    if not (
        evaluates_first and same_env and env.eval.tasks and env.eval.sentences == OWN_INSTRUCTIONS
    ):
        return []
    try:
        trained = _tasks(env.train, registry, "env.train")
        tasks = _tasks(replace(env.eval, tasks=None), registry, "env.eval")
        others = [task for task in tasks if task not in trained]
    except UserError:  # reported for the env itself, or the env has no default list of tasks
        return []
    count = min(MAX_CHOSEN_TASKS, len(others))
    return [others[i * len(others) // count] for i in range(count)]


def _tasks(settings: EnvConfig, registry: Registry, path: str) -> Sequence[str]:
    spec: EnvSpec = ask_spec(registry, "env", path, settings.env_type, settings)
    return tuple(spec.tasks if settings.tasks is None else settings.tasks)
