"""Define every hook that a plugin can implement, in the order in which a run calls them.

A plugin is a module that an entry point of the group `rlcore.plugins` names. The module defines
`RLCORE_API = (major, minor)` and hooks: functions decorated with :data:`rlcore.hookimpl`. It
imports neither a simulator nor a tensor library; it refers to heavy code by strings of the form
`"module:attr"`. All hooks are optional. The annotation of each hook gives the type of its result.

Signatures of the callables that a :class:`~rlcore.contracts.specs.ComponentSpec` names by strings:

    env        target(config, *, num_envs, rank, world_size, num_processes) -> Env
               spec(config) -> EnvSpec
    model      target(config, *, env_spec) -> Policy
               spec(config, env_spec) -> PolicySpec
    algorithm  target(config) -> Algorithm           spec(config) -> AlgorithmNeeds
    placement  target(inventory, config) -> component_placement mapping
    backend    target() -> Backend                   spec(cluster, *, only_look) -> Inventory
    dataset    target() -> DatasetFormat
    tracker    target(config, run_dir) -> Tracker
    protocol   target is a ProtocolSpec
    command    target(arguments: Sequence[str]) -> int, the exit code
    wrapper    target(env or algorithm, settings) -> an object of the same kind
               spec(EnvSpec or AlgorithmNeeds, settings) -> an object of the same kind
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    from rlcore.contracts.episodes import EpisodeOutcome, LabelledFootage
    from rlcore.contracts.run import Run
    from rlcore.contracts.specs import ComponentSpec, OtherInterpreter

hookspec = pluggy.HookspecMarker("rlcore")
hookimpl = pluggy.HookimplMarker("rlcore")
OBSERVER = "rlcore_observer"  # name of the function attribute that :func:`observer` sets
Hook = TypeVar("Hook", bound=Callable[..., object])


def observer(hook: Hook) -> Hook:
    """Mark a hook that only observes a run; use it in place of :data:`hookimpl`.

    An exception in an observer becomes a warning and never ends the run.
    """
    vars(hook)[OBSERVER] = True
    return hookimpl(hook)


# -- listing: called by every command, so it returns only strings ----------------------------------


@hookspec
def rlcore_components() -> list[ComponentSpec]:
    """List the components of this plugin, of all kinds. A user selects a component by its name:

    * env: `env=NAME`
    * model: `model=NAME`
    * algorithm: `algorithm=NAME`
    * placement: `cluster.component_placement=NAME`, a layout that is computed for a cluster
    * backend: `cluster.backend=NAME`, which starts the workers and calls them
    * dataset: `collect.format=NAME` to write one; the format of a folder that is read is detected
    * tracker: `runner.logger.logger_backends=[NAME]`
    * protocol: `rlcore eval RUN protocol=NAME`, an evaluation under several settings of an env
    * command: `rlcore NAME ...`
    * wrapper: `env.train.wrappers=[NAME]`, `env.eval.wrappers=[NAME]`, `algorithm.wrappers=[NAME]`
    """
    return []


# -- configuration --------------------------------------------------------------------------


@hookspec
def rlcore_config_paths() -> list[str]:
    """List Hydra search paths (`"pkg://my_plugin.conf"`) that contain the config groups env/,
    model/, algorithm/ and experiment/. A file `env/NAME.yaml` is used for both `env.train` and
    `env.eval`."""
    return []


@hookspec
def rlcore_settings() -> list[str]:
    """Name the class of this plugin's own settings: `["my_plugin.settings:MySettings"]`.

    The class is a dataclass that extends :class:`rlcore.config.schema.PluginConfig`. A user sets
    its fields as `plugins.NAME.key`, where NAME is the name of the entry point;
    `plugins.NAME.enabled=false` disables the hooks that the plugin has during a run. A hook reads
    the settings as `run.config.plugins.NAME`, and a tracker or a command as
    `rlcore.open_run(folder).config().plugins.NAME`.
    """
    return []


@hookspec
def rlcore_translate_keys(layers: list[dict[str, Any]], config: Any | None) -> None:
    """Translate keys of another system, in place, while a configuration is composed.

    The hook warns about each key that it replaces (:func:`rlcore.config.warning.warn`).

    Args:
        layers: nested raw values: those of files, then those of each argument of the command line.
            Later layers take precedence.
        config: the defaults of the chosen components, a :class:`rlcore.config.schema.RunConfig`;
            None if they are not known.

    Raises:
        ConfigError: a replacement would lose the meaning of a value.
    """


@hookspec
def rlcore_metric_names() -> dict[str, str]:
    """Return further names of metrics, `{further name: metric}`.

    With `plugins.tools.other_names`, a run logs each of these metrics under both names.
    """
    return {}


# -- before a run ---------------------------------------------------------------------------


@hookspec
def rlcore_doctor(config: Any | None) -> list[dict[str, str]]:
    """Check the machine: GL, drivers, assets, environment variables.

    The hook must be quick and must not import the simulator into this process. A plugin with
    components is called only for runs that use one of them, any other plugin for all runs.

    Args:
        config: the resolved run config; None for `rlcore doctor` without a config.
            `config.active_envs` holds the envs that the run plays.

    Returns:
        Dicts `{"name", "status": "ok" | "warning" | "missing" | "refused", "detail", "fix"}`, where
        `fix` is the command that solves the problem. "missing" means that the machine lacks
        something, "refused" that the run is invalid on every machine (`name` is the key to change).
        Both end a run; "warning" does not.
    """
    return []


@hookspec(firstresult=True)
def rlcore_sweep(
    verb: str, words: Sequence[str], config_dirs: Sequence[str | Path]
) -> list[Path] | None:
    """Run a sweep, one job for each combination of the values that `words` list, for
    :func:`rlcore.sweep`. The first plugin that returns a list answers; core runs no sweeps.

    Args:
        verb: command that each job runs, such as "train".
        words: arguments of the sweep, such as `algorithm.gamma=0.9,0.99`.
        config_dirs: the user's folders of config groups.

    Returns:
        Folders of the runs that succeeded, in the order of their job numbers.

    Raises:
        UserError: a configuration can't be composed, or no run succeeded.
    """


@hookspec
def rlcore_versions(envs: Mapping[str, Any], model: Any) -> list[OtherInterpreter]:
    """Describe the Python interpreters outside rlcore's own environment where components run.

    Called when a run starts and after simulators were restarted. The versions are written to the
    manifest, and a line for the user names those that changed since the run was last started.

    Args:
        envs: settings of the envs that the run plays, by side
            (:attr:`rlcore.contracts.component.OtherInterpreter.side`).
        model: settings of the model; None if nothing acts.

    Raises:
        UserError: an interpreter can't be used.
    """
    return []


# -- during a run: called in the driver, not in the workers. Results are ignored. A hook reads and
# -- steers the run through `run`. It may add metrics to `metrics`, each a name and a number, but
# -- must not change or remove those that are there. The hooks of different plugins are called one
# -- after another, and each call may take `cluster.timeouts.hook` seconds. The decorator decides
# -- what happens if a hook raises, or adds something that is not a metric:
# --
# --     @hookimpl    the hook may steer: once the finished updates are in a checkpoint, the run
# --                  ends with one error that names the plugin
# --     @observer    the hook only observes: one warning names the plugin and the hook, and the run
# --                  continues
# --
# -- A timeout of a `@hookimpl` ends the run. An observer is called on a separate thread, while the
# -- run waits for it. On timeout it is abandoned with a warning, and no observer of its plugin is
# -- called again.


@hookspec
def rlcore_after_rollout(
    run: Run,
    outcomes: Sequence[EpisodeOutcome],
    films: Sequence[LabelledFootage],
    metrics: dict[str, float],
) -> None:
    """React to the episodes of a rollout, before the update that learns from them.

    Args:
        run: the run, after `run.update` updates.
        outcomes: outcome of each episode, including episodes that the algorithm discards
            (`filter_rewards`); sorted by address, with refills within each round.
        films: the episodes that were filmed (`env.train.video_cfg`).
        metrics: `env/*`, `rollout/*` and `time/*` so far; logged after the update.
    """


@hookspec
def rlcore_after_update(run: Run, metrics: dict[str, float]) -> None:
    """React to an update of the policy.

    Args:
        run: the run, after `run.update` updates, including this one.
        metrics: `train/*`, `rollout/*` and `time/*` of the update.
    """


@hookspec
def rlcore_after_eval(
    run: Run, label: str, films: Sequence[LabelledFootage], metrics: dict[str, float]
) -> None:
    """React to an evaluation; its episodes are in `eval/LABEL.parquet`.

    Args:
        run: the run.
        label: "before", "step_000010", "after", "best" or "control" for evaluations of a training
            run, with the prefix "validation/" or "forgetting/" for those evaluations;
            "sampling/before" with the model's own noise; "plateau/steps_000200" for those that end
            supervised training; "eval" or "sft" for the command of that name; "PROTOCOL/ROW" for a
            row of a protocol.
        films: the episodes that were filmed (`env.eval.video_cfg`).
        metrics: `eval/*`.
    """


@hookspec
def rlcore_after_run(run: Run, summary: Mapping[str, Any]) -> None:
    """React to a finished run, after all its files were written.

    Called once, and never for a run that was interrupted or failed.

    Args:
        run: the run.
        summary: contents of `summary.json` (:class:`rlcore.runs.summary.Summary`).
    """
