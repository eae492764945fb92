"""Implement `hydra/sweeper=rlcore_optuna`: build a study from overrides, run and evaluate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from optuna.trial import TrialState

from rlcore.config import schema_tree
from rlcore.config.overrides import BOTH_SIDES
from rlcore.contracts.errors import ConfigError
from rlcore_sweeps.held_out import measure
from rlcore_sweeps.job_config import try_compose_job
from rlcore_sweeps.objective import SUCCESS
from rlcore_sweeps.request import SPLIT, key_of, to_rlcore
from rlcore_sweeps.space import Space
from rlcore_sweeps.study import Study, metric_of
from rlcore_sweeps.study_record import HELD_OUT
from rlcore_sweeps.study_settings import StudySettings
from rlcore_sweeps.task import JobTask

VERBS = ("train", "eval")


def sweep(
    config: DictConfig,
    context: HydraContext,
    task: TaskFunction,
    settings: Mapping[str, Any],
    words: Sequence[str],
) -> None:
    """Run a study, then evaluate its best setting on held-out starts.

    The evaluation is skipped if no trial is complete, or if the study itself uses held-out starts.

    Args:
        config, context, task: the arguments of Hydra's `Sweeper.setup`.
        settings: settings of the sweeper, see `hydra_plugins.hydra_rlcore_sweeper`.
        words: overrides of the sweep, in Hydra's grammar.

    Raises:
        ConfigError: the jobs evaluate no policy, there are several objectives, or a setting of the
            study is invalid.
    """
    if not isinstance(task, JobTask) or task.verb not in VERBS:
        raise ConfigError(
            "hydra/sweeper=rlcore_optuna searches over runs that evaluate a policy",
            hint="rlcore train EXPERIMENT -m hydra/sweeper=rlcore_optuna ..., or rlcore eval RUN",
        )
    if len(task.objective) > 1:
        raise ConfigError(f"a study has one objective, got {', '.join(task.objective)}")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    plain: Any = OmegaConf.to_container(OmegaConf.create(dict(settings)))
    study_settings = StudySettings(**plain)
    space = Space.parse(words, study_settings.params, context.config_loader)
    study_settings.check()
    launcher = Plugins.instance().instantiate_launcher(
        hydra_context=context, task_function=task, config=config
    )
    study = Study(
        settings=study_settings,
        space=space,
        objective=task.objective[0] if task.objective else SUCCESS,
        split=_split(space.fixed),
        sweep=Path(str(config.hydra.sweep.dir)).absolute(),
        launch=launcher.launch,
    )
    study.default = _default(study, task)
    if task.preview_folder is not None:
        study.show()
        return
    _print_plan(study)
    trials = study.run()
    if trials.best is not None and trials.split != HELD_OUT:
        measure(trials, study, config, context, task)


def _split(words: Sequence[str]) -> str:
    """Return the split whose starts runs are evaluated on; the sweep has added it to the words."""
    (split,) = {word.partition("=")[2] for word in words if key_of(word) in SPLIT}
    return split


def _default(study: Study, task: JobTask) -> Mapping[str, Any] | None:
    """Return the recipe's own values of the searched keys, or None if they are not in the space."""
    words = to_rlcore(study.space.fixed)
    config = try_compose_job([task.verb, *task.flags, *words])
    if config is None:
        return None
    try:
        setting = {
            key: schema_tree.value_of(config, key.replace(BOTH_SIDES, "env.eval."))
            for key in study.space.choices
        }
        study.trial(TrialState.RUNNING, setting)
    except (AttributeError, ValueError):  # a config group, or a value outside its distribution
        return None
    return setting


def _print_plan(study: Study) -> None:
    """Print the size and objective of a study, and which of its features have no effect."""
    settings = study.settings
    print(
        f"study: {settings.n_trials} trials of {len(settings.run_seeds)} runs, chosen by "
        f"{study.objective} on {study.split} starts; proposed by {settings.sampler}, "
        f"{settings.batch_size} at once",
        flush=True,
    )
    if study.default is None:
        print("the recipe's own setting is not in the space, so it is not tried", flush=True)
    if settings.pruner != "none" and metric_of(study.objective) is None:
        print(f"nothing is pruned: no evaluation tells of {study.objective}", flush=True)
