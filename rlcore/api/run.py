"""Compose a configuration, then train or evaluate it. The command line calls the same functions.

recipe, overrides --compose--> Draft --checks--> Assembly --> loop --> run folder
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.api.launch import Callback, Draft, start
from rlcore.api.policy import LoadedPolicy, load_policy, save_policy
from rlcore.api.saved_run import NEEDED_TO_ACT, Evaluation, SavedRun, open_run
from rlcore.config.catalog import (
    BY_RECIPE,
    COMPONENT_GROUPS,
    EXPERIMENT,
    Catalog,
    is_folder,
    is_override,
    named_recipe,
)
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, MissingPackageError, did_you_mean
from rlcore.contracts.hookspecs import hookimpl
from rlcore.plugins import extras
from rlcore.plugins.registry import load_plugins
from rlcore.utils.text import format_value

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from rlcore.contracts.run import Run
    from rlcore.runs.summary import Summary
    from rlcore.training.play_episode import Phase


@dataclass(frozen=True)
class RunResult(os.PathLike[str]):
    """The result of a run. Functions that take a run's path accept it in place of the folder.

    Attributes:
        folder: folder of the run.
        summary: content of `summary.json`.
    """

    folder: Path
    summary: Summary = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def run(self) -> SavedRun:
        """The run's folder, opened for reading."""
        return open_run(self.folder)

    @property
    def metrics(self) -> list[dict[str, float | None]]:
        """Metrics of each line of `metrics.jsonl`."""
        return self.run.metrics()

    @property
    def policy(self) -> LoadedPolicy:
        """Policy of the run's latest checkpoint on the CPU, loaded at each access."""
        return load_policy(self.folder, trust=True)


def compose(
    recipe: str | os.PathLike[str] | RunConfig | None = None,
    *overrides: str,
    config_dirs: Sequence[str | Path] = (),
    require: Sequence[str] = (),
    draft: bool = False,
) -> RunConfig:
    """Compose the frozen configuration of a run.

    Args:
        recipe: name or file of a recipe, or None; an override in its place is treated as one of
            `overrides`. Or a configuration, of which only keys can be changed, not the components.
        overrides: `group=option` and `key=value`, as on the command line.
        config_dirs: further folders with config groups.
        require: groups of which a component must be chosen ("env", "model", "algorithm").
        draft: whether required keys that are not given get their defaults in place of an error.

    Raises:
        ConfigError: an unknown recipe, key or option, a value of a wrong type, or a required
            component that is not chosen.
        PluginError: a component is not installed, or its plugin is broken.
    """
    from rlcore.config.compose import changed, compose

    words, own = _words(None if isinstance(recipe, RunConfig) else recipe, overrides)
    if isinstance(recipe, RunConfig):
        if config_dirs:
            raise ConfigError(
                "config_dirs are for what is composed from words: the components of a "
                "configuration stay",
                hint="give them to the rlcore.compose that made the configuration",
            )
        return changed(recipe, words, require=require) if words or require else recipe
    return compose(words, config_dirs=[*config_dirs, *own], require=require, draft=draft)


def _words(
    recipe: str | os.PathLike[str] | None, overrides: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return all words, and the config folder of the recipe if it is given as a file.

    Raises:
        ConfigError: a word is not a string.
    """
    first = os.fspath(recipe) if isinstance(recipe, os.PathLike) else recipe
    for word in (first or "", *overrides):
        if not isinstance(word, str):
            raise ConfigError(
                f"a recipe is its name, or words like 'env=toy', got a {type(word).__name__}",
                hint="rlcore.compose(*words); compose, train and evaluate take a configuration too",
            )
    if first is None or is_override(first):
        return [*filter(None, [first]), *overrides], []
    name, folders = named_recipe(first)
    return [BY_RECIPE + name, *overrides], folders


def train(
    recipe: str | os.PathLike[str] | RunConfig | Draft | None = None,
    *overrides: str,
    callbacks: Callback | object | Sequence[Callback | object] = (),
    config_dirs: Sequence[str | Path] = (),
) -> RunResult:
    """Train: `rlcore train` in this process, with the same checks, progress output and run folder.

    Args:
        recipe: as for :func:`compose`; or a draft.
        overrides: as for :func:`compose`.
        callbacks: functions called as `callback(run, metrics)` after each update, before its
            metrics are logged. A callback may add metrics, and control the run by
            :class:`rlcore.contracts.run.Run`, e.g. `run.stop(reason)`. An object with methods
            marked by `rlcore.hookimpl` or `rlcore.observer` is used like a plugin: these hooks are
            called instead.
        config_dirs: further folders with config groups.

    Raises:
        UserError: the run can't start, or a worker or a callback failed.
        KeyboardInterrupt: the run was asked to stop; it wrote a checkpoint if it could.
    """
    draft = _draft(recipe, overrides, config_dirs, tuple(COMPONENT_GROUPS))
    ended = _Outcome()
    hooks = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    start("rlcore.training.train:run", draft, callbacks=[*hooks, ended])
    return RunResult(ended.folder, ended.summary)


def evaluate(
    source: str | os.PathLike[str] | LoadedPolicy | RunConfig | Draft,
    *overrides: str,
    trials: int | None = None,
    trust: bool = False,
) -> Evaluation:
    """Evaluate: `rlcore eval` in this process.

    Args:
        source: a run or its folder, a checkpoint's folder, a loaded policy, a recipe, a
            configuration, or a draft.
        overrides: `key=value`.
        trials: number of starts of each task (`env.eval.trials_per_task`).
        trust: whether to allow keys of the run's configuration that can run code of its author.

    Raises:
        UserError: the run or recipe does not exist, the run was trained on the starts of the
            evaluation, or the evaluation can't start.
    """
    words, _ = _words(None, overrides)
    if trials is not None:
        words.append(f"env.eval.trials_per_task={trials}")
    ended = _Outcome()
    with contextlib.ExitStack() as holds:
        if isinstance(source, LoadedPolicy):
            from rlcore.config.overrides import quote

            folder = Path(holds.enter_context(tempfile.TemporaryDirectory()))
            save_policy(source.policy, source.env_spec, folder)
            words = ["runner.only_eval=true", f"actor.model.model_path={quote(folder)}", *words]
            source = compose(source.config, *words)
        elif isinstance(source, RunConfig):
            source = compose(source, "runner.only_eval=true", *words)
        elif not isinstance(source, Draft):
            source = config_to_evaluate(source, *words, trust=trust)
        draft = source if isinstance(source, Draft) else Draft(source, words=words)
        start("rlcore.training.evaluate:run", draft, callbacks=[ended])
    return open_run(ended.folder).evaluation(ended.label)


def config_to_evaluate(
    named: str | os.PathLike[str] | None,
    *overrides: str,
    config_dirs: Sequence[str | Path] = (),
    trust: bool = False,
    verify: bool = False,
) -> RunConfig:
    """Return the configuration of an evaluation.

    Args:
        named: folder of a run or of a checkpoint, whose configuration is used with the checkpoint
            as the model; or a recipe, an override, or None, as for :func:`compose`.
        overrides: as for :func:`compose`.
        config_dirs: as for :func:`compose`; not used with a folder.
        trust: whether to allow keys of the run's configuration that can run code of its author.
        verify: whether to compare all files of the checkpoint with their digests.

    Raises:
        UserError: the folder holds no run or no checkpoint, the run was trained on the starts of
            the evaluation, or there is no such recipe.
    """
    name = os.fspath(named) if isinstance(named, os.PathLike) else named
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"a run is named by its folder, got {type(name).__name__}")
    if name is not None and is_folder(name):
        from rlcore.runs.checkpoint import load_checkpoint
        from rlcore.training.trained_on import check_untrained

        run = open_run(Path(name).resolve())
        saved = load_checkpoint(run.path, verify=verify)
        config = run.config_to_evaluate(saved, *overrides, trust=trust)
        check_untrained(config, run.folder)
        return config
    if name is not None and not is_override(name):
        recipe, folders = named_recipe(name)
        catalog = Catalog(load_plugins(), [*config_dirs, *folders])
        if catalog.recipe(recipe)[0] is None:
            raise CheckpointError(
                f"{name[:200]!r} is neither the folder of a run nor an experiment."
                f"{did_you_mean(name, catalog.options(EXPERIMENT))}",
                hint="rlcore eval RUN, a folder like logs/quickstart, or one of rlcore train "
                "--help experiment",
            )
    words, own = _words(name, overrides)
    return compose(
        "runner.only_eval=true", *words, config_dirs=[*config_dirs, *own], require=NEEDED_TO_ACT
    )


def _draft(
    recipe: str | os.PathLike[str] | RunConfig | Draft | None,
    overrides: Sequence[str],
    config_dirs: Sequence[str | Path],
    needed: Sequence[str],
) -> Draft:
    if isinstance(recipe, Draft):
        return recipe
    config = compose(recipe, *overrides, config_dirs=config_dirs, require=needed)
    if isinstance(recipe, RunConfig):
        return Draft(config, words=overrides)
    return Draft(config, words=_words(recipe, overrides)[0])


class _Outcome:
    """Hooks that store a run's folder and summary, and the label of its last evaluation."""

    @hookimpl
    def rlcore_after_eval(self, label: str) -> None:
        self.label = label

    @hookimpl
    def rlcore_after_run(self, run: Run, summary: Summary) -> None:
        self.folder = run.folder
        self.summary = summary


def make_env(
    name: str | RunConfig, *overrides: str, num_envs: int = 1, side: Phase = "eval"
) -> VectorEnv[Any, Any, Any]:
    """Return an env as a vector env of gymnasium, which must be installed.

    Its `reset` takes `seed` and `options["reset_mask"]` as gymnasium's own vector envs do. After an
    episode ends, the next one starts in the same row (`AutoresetMode.NEXT_STEP`).

    Args:
        name: name of the env, as in `env=NAME`; or a configuration, whose env is made.
        overrides: `key=value`, e.g. `env.eval.tasks=[reach-v3]`.
        num_envs: number of rows B.
        side: whether the env has the settings and starts of `env.eval` or of `env.train`.

    Raises:
        UserError: there is no such env, a setting is invalid, or something the env needs is
            missing.
    """
    absent = extras.lacking(["gymnasium"])
    if absent:
        raise MissingPackageError(
            "rlcore.make_env needs gymnasium, not installed", hint=extras.installing(absent)
        )
    if isinstance(name, RunConfig):
        config = compose(name, *overrides, require=("env",))
    elif not isinstance(name, str) or is_override(name):
        raise ConfigError(
            "an env is named as behind env=, or it is that of a configuration, got "
            f"{format_value(name) if isinstance(name, str) else type(name).__name__}",
            hint='rlcore.make_env("toy"); of a run: rlcore.make_env(rlcore.open_run(RUN).config())',
        )
    else:
        config = compose(f"env={name}", *overrides, require=("env",))
    from rlcore.api.vector_env import vector_env

    return vector_env(config, num_envs=num_envs, side=side)


def sweep(
    recipe: str | os.PathLike[str] | None, *overrides: str, config_dirs: Sequence[str | Path] = ()
) -> list[SavedRun]:
    """Train a sweep of runs: `rlcore train RECIPE key=a,b -m`. Needs a plugin that runs sweeps.

    Args:
        recipe: as for :func:`compose`.
        overrides: as for :func:`compose`; they may also list values, `algorithm.gamma=0.9,0.99`, or
            configure the sweep, `hydra/sweeper=rlcore_optuna`.
        config_dirs: further folders with config groups.

    Returns:
        The runs that succeeded, in the order of their job numbers.

    Raises:
        UserError: a configuration can't be composed, or no run succeeded.
    """
    words, own = _words(recipe, overrides)
    registry = load_plugins()
    folders: list[Path] | None = registry.manager.hook.rlcore_sweep(
        verb="train", words=words, config_dirs=[*config_dirs, *own]
    )
    if folders is None:
        raise registry.not_found("command", "sweep", registry.names("command"))
    return [open_run(folder) for folder in folders]
