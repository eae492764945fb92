"""Compose a configuration, then train or evaluate it. The command line calls the same functions.

recipe, overrides --compose--> Draft --checks--> Assembly --> loop --> run folder
"""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from rlcore.api.episode import Phase
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
from rlcore.config.old_names import warn
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, UserError, did_you_mean
from rlcore.contracts.hookspecs import hookimpl
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_component, load_plugins
from rlcore.terminal.text import written

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from rlcore.checks.ready import Makes
    from rlcore.contracts.run import Run
    from rlcore.results.summary import Summary

Callback = Callable[["Run", Mapping[str, float]], object]


@dataclass(frozen=True)
class Draft:
    """A configuration to run, as far as it could be read.

    Attributes:
        config: with defaults in place of what is wrong.
        wrong: what is.
        given: the words it was composed from.
    """

    config: RunConfig
    wrong: Sequence[UserError] = ()
    given: Sequence[str] = ()


@dataclass(frozen=True)
class RunResult(os.PathLike[str]):
    """What a run came to. Where a path of a run is taken, it stands for its folder.

    Attributes:
        folder: of the run.
        summary: what its `summary.json` holds.
    """

    folder: Path
    summary: Summary = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def run(self) -> SavedRun:
        """All that it left in its folder."""
        return open_run(self.folder)

    @property
    def metrics(self) -> list[dict[str, float | None]]:
        """The lines of its `metrics.jsonl`."""
        return self.run.metrics()

    @property
    def policy(self) -> LoadedPolicy:
        """Its latest checkpoint, loaded anew."""
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
        recipe: its name, its file, or None; an override in its place counts as one. Or a
            configuration, of which keys are changed; its components stay.
        overrides: `group=option` and `key=value`, as on the command line.
        config_dirs: further folders of groups.
        require: groups of which a component must be chosen ("env", "model", "algorithm").
        draft: leave keys that must be given and are not at their defaults.

    Raises:
        ConfigError: an unknown recipe, key or option, a wrong type, a component that is not chosen.
        PluginError: a component that is not installed, or is broken.
    """
    from rlcore.config.compose import compose

    if isinstance(recipe, RunConfig):
        if config_dirs:
            raise ConfigError(
                "config_dirs are for what is composed from words: the components of a "
                "configuration stay",
                hint="give them to the rlcore.compose that made the configuration",
            )
        return changed(recipe, *overrides, require=require)
    words, own = _words(recipe, overrides)
    return compose(words, config_dirs=[*config_dirs, *own], require=require, draft=draft)


def _words(
    recipe: str | os.PathLike[str] | None, overrides: Sequence[str]
) -> tuple[list[str], list[str]]:
    """All words, and the folder of groups of a recipe that is named by its file."""
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


def changed(config: RunConfig, *overrides: str, require: Sequence[str] = ()) -> RunConfig:
    """A configuration with changes of its keys.

    Args:
        require: groups of which it must name a component.

    Raises:
        ConfigError: an unknown key, a wrong type, or another component.
    """
    from rlcore.config.compose import load, to_yaml

    words, _ = _words(None, overrides)
    if not words and not require:
        return config
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(to_yaml(config), encoding="utf-8")
        return load(file, words, require=require, trust=True)


def train(
    recipe: str | os.PathLike[str] | RunConfig | Draft | None = None,
    *overrides: str,
    callbacks: Callback | object | Sequence[Callback | object] = (),
    config_dirs: Sequence[str | Path] = (),
) -> RunResult:
    """Train: `rlcore train` in this process, with its checks, its progress and its folder.

    Args:
        recipe: as of :func:`compose`; or a configuration.
        overrides: as of :func:`compose`.
        callbacks: each is called as `callback(run, metrics)` after each update, before its metrics
            are logged: it may add to them, and steer by :class:`rlcore.contracts.run.Run`, e.g.
            `run.stop(reason)`. An object with functions marked by `rlcore.hookimpl` or
            `rlcore.observer` has those called instead, as a plugin's are.
        config_dirs: further folders of groups.

    Raises:
        UserError: the run can't start, a worker failed, or a callback did.
        KeyboardInterrupt: it was asked to stop; a checkpoint was made where it could be.
    """
    draft = _draft(recipe, overrides, config_dirs, tuple(COMPONENT_GROUPS))
    ended = _Outcome()
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    start("rlcore.training.train:run", draft, callbacks=[*given, ended])
    return RunResult(ended.folder, ended.summary)


def evaluate(
    played: str | os.PathLike[str] | LoadedPolicy | RunConfig | Draft,
    *overrides: str,
    trials: int | None = None,
    trust: bool = False,
) -> Evaluation:
    """Evaluate: `rlcore eval` in this process.

    Args:
        played: a run or its folder, a checkpoint's folder, a loaded policy, a recipe, or a
            configuration.
        overrides: `key=value`.
        trials: episodes of each task (`env.eval.trials_per_task`).
        trust: allow keys that run code of whoever made the folder.

    Raises:
        UserError: no such run or recipe, one that was trained on these starts, or that can't start.
    """
    words, _ = _words(None, overrides)
    if trials is not None:
        words.append(f"env.eval.trials_per_task={trials}")
    ended = _Outcome()
    with contextlib.ExitStack() as holds:
        if isinstance(played, LoadedPolicy):
            from rlcore.config.overrides import quote

            folder = Path(holds.enter_context(tempfile.TemporaryDirectory()))
            save_policy(played.policy, played.env_spec, folder)
            words = ["runner.only_eval=true", f"actor.model.model_path={quote(folder)}", *words]
            played = changed(played.config, *words)
        elif isinstance(played, RunConfig):
            played = changed(played, "runner.only_eval=true", *words)
        elif not isinstance(played, Draft):
            played = config_to_evaluate(played, *words, trust=trust)
        draft = played if isinstance(played, Draft) else Draft(played, given=words)
        start("rlcore.evaluation.evaluate:run", draft, callbacks=[ended])
    return open_run(ended.folder).evaluation(ended.label)


def config_to_evaluate(
    named: str | os.PathLike[str] | None,
    *overrides: str,
    config_dirs: Sequence[str | Path] = (),
    trust: bool = False,
    verify: bool = False,
) -> RunConfig:
    """The configuration of an evaluation: where a folder is named, that of its run with its
    checkpoint as the model; else that of a recipe.

    Args:
        verify: compare all files of the checkpoint with their digests.

    Raises:
        UserError: the folder holds no run, or no checkpoint, or it was trained on these starts.
    """
    name = os.fspath(named) if isinstance(named, os.PathLike) else named
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"a run is named by its folder, got {type(name).__name__}")
    if name is not None and is_folder(name):
        from rlcore.run_folder.checkpoint import load_checkpoint
        from rlcore.session.trained_on import check_untrained

        run = open_run(Path(name).resolve())
        kept = load_checkpoint(run.named, verify=verify)
        config = run.config_to_evaluate(kept, *overrides, trust=trust)
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
        return Draft(config, given=overrides)
    return Draft(config, given=_words(recipe, overrides)[0])


def start(
    loop: str,
    draft: Draft,
    *,
    further: Mapping[str, RunConfig] | None = None,
    makes: Makes = "updates",
    trains: bool = False,
    callbacks: Sequence[Callback | object] = (),
    passed: Mapping[str, Any] | None = None,
) -> Any:
    """Check a configuration, then run a loop on it; returns what that returns.

    Args:
        loop: `"module:function"` that takes the :class:`rlcore.session.assembly.Assembly`.
        draft: what runs.
        further: configurations of further sides to evaluate on.
        makes: what the loop is for, whatever the configuration says.
        trains: whether it plays `env.train` also where the configuration only evaluates.
        callbacks: as of :func:`train`.
        passed: further arguments of the loop.

    Raises:
        UserError: one that lists all that is in its way; or what the loop raises.
    """
    from rlcore.checks.ready import look, require

    config, registry = draft.config, load_plugins()
    heard = {
        f"callback {place}, {_name_of(one)}": _PerUpdate(one) if callable(one) else one
        for place, one in enumerate(callbacks, 1)
    }
    with registry.hearing(heard), _joined(config):
        facts, findings = look(
            config, registry, further,
            wrong=draft.wrong, given=draft.given, makes=makes, trains=trains,
        )  # fmt: skip
        for one in findings:
            if one.status == "warning":
                warn(f"{one.text}; {one.fix}" if one.fix else one.text)
        require(findings)
        from rlcore.session.assembly import assemble  # a refusal is instant

        assembly = assemble(config, registry, further, trains=trains, facts=facts)
        return load_target(loop)(assembly, **passed or {})


def _joined(config: RunConfig) -> contextlib.AbstractContextManager[None]:
    """Join the run's cluster before the run is planned, as the plan needs its nodes. A cluster of
    the run's own is started later, once no check has failed."""
    from rlcore.placement import joins
    from rlcore.workers.backend import backend_of

    if not joins(config.cluster):
        return contextlib.nullcontext()
    return backend_of(config.cluster).session(config.cluster)


def _name_of(callback: object) -> str:
    return (callback if isinstance(callback, FunctionType) else type(callback)).__qualname__


class _PerUpdate:
    """A function as the hook of a plugin."""

    def __init__(self, callback: Callback) -> None:
        try:
            inspect.signature(callback).bind(None, None)
        except TypeError as error:  # now, not after hours of the first update
            raise ConfigError(
                f"callback {_name_of(callback)} can't be called with (run, metrics): {error}",
                hint="def callback(run, metrics): ...",
            ) from None
        self._callback = callback

    @hookimpl
    def rlcore_after_update(self, run: Run, metrics: dict[str, float]) -> None:
        self._callback(run, metrics)


class _Outcome:
    """Notes where a run was, and what it came to."""

    @hookimpl
    def rlcore_after_eval(self, label: str) -> None:
        self.label = label

    @hookimpl
    def rlcore_after_run(self, run: Run, summary: Summary) -> None:
        self.folder, self.summary = run.folder, summary


def make_env(
    name: str | RunConfig, *overrides: str, num_envs: int = 1, side: Phase = "eval"
) -> VectorEnv[Any, Any, Any]:
    """Make an env as a vector env of gymnasium. Needs `rlcore-tools` and gymnasium.

    Its `reset` takes `seed` and `options["reset_mask"]` as gymnasium's own vector envs do. An
    episode that has ended is followed by the next one in the same row (`AutoresetMode.NEXT_STEP`).

    Args:
        name: as in `env=NAME`; or a configuration, whose env it is.
        overrides: `key=value`, e.g. `env.eval.tasks=[reach-v3]`.
        num_envs: B.
        side: whose settings and starts it has: of training or of evaluations.

    Raises:
        UserError: no such env, a wrong setting, or something that it needs is missing.
    """
    make = load_component("function", "make_env")
    if isinstance(name, RunConfig):
        config = compose(name, *overrides, require=("env",))
    elif not isinstance(name, str) or is_override(name):
        raise ConfigError(
            "an env is named as behind env=, or it is that of a configuration, got "
            f"{written(name) if isinstance(name, str) else type(name).__name__}",
            hint='rlcore.make_env("toy"); of a run: rlcore.make_env(rlcore.open_run(RUN).config())',
        )
    else:
        config = compose(f"env={name}", *overrides, require=("env",))
    made: VectorEnv[Any, Any, Any] = make(config, num_envs=num_envs, side=side)
    return made


def sweep(
    recipe: str | os.PathLike[str] | None, *overrides: str, config_dirs: Sequence[str | Path] = ()
) -> list[SavedRun]:
    """Train many times: `rlcore train RECIPE key=a,b -m`. Needs `rlcore-sweeps`.

    Args:
        recipe: as of :func:`compose`.
        overrides: some of which list values, `algorithm.gamma=0.9,0.99`, or are about the sweep,
            `hydra/sweeper=rlcore_optuna`.
        config_dirs: further folders of groups.

    Returns:
        The runs that ended well, in the order of their numbers.

    Raises:
        UserError: what can't be composed; or no run ended well.
    """
    words, own = _words(recipe, overrides)
    folders: list[Path] = load_component("function", "sweep")(
        "train", words, config_dirs=[*config_dirs, *own]
    )
    return [open_run(folder) for folder in folders]
