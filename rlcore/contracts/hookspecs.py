"""Define every hook a plugin can implement, in the order of a run. This page is the contract.

A plugin is a module named by an entry point of the group `rlcore.plugins`. It holds
`RLCORE_API = (major, minor)` and functions decorated with :data:`rlcore.hookimpl`, and imports
neither a simulator nor a tensor library: everything heavy is named by a string. All hooks are
optional; a hook's result is a list unless it says otherwise.

Signatures behind the strings of a :class:`~rlcore.contracts.specs.ComponentSpec`:

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
    function   target as rlcore.NAME of the Python API
    wrapper    target(env or algorithm, settings) -> the same kind
               spec(EnvSpec or AlgorithmNeeds, settings) -> the same kind
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    from rlcore.contracts.episodes import EpisodeOutcome, Film
    from rlcore.contracts.run import Run
    from rlcore.contracts.specs import ComponentSpec, OtherInterpreter

hookspec = pluggy.HookspecMarker("rlcore")
hookimpl = pluggy.HookimplMarker("rlcore")
OBSERVER = "rlcore_observer"  # the mark, an attribute of the function
Hook = TypeVar("Hook", bound=Callable[..., object])


def observer(hook: Hook) -> Hook:
    """Mark a hook that only watches a run, in place of :data:`hookimpl`: what it raises never costs
    the run."""
    vars(hook)[OBSERVER] = True
    return hookimpl(hook)


# -- listing: called by every command, so strings only -------------------------------------


@hookspec
def rlcore_components() -> list[ComponentSpec]:
    """List what this plugin brings, of any kind. A name is what a user writes:

    * env: `env=NAME`
    * model: `model=NAME`
    * algorithm: `algorithm=NAME`
    * placement: `cluster.component_placement=NAME`, a layout that is worked out for a cluster
    * backend: `cluster.backend=NAME`, what starts the workers and calls them
    * dataset: nothing; a folder of demonstrations is read by the format that holds it
    * tracker: `runner.logger.logger_backends=[NAME]`
    * protocol: `rlcore eval RUN protocol=NAME`, an evaluation under several settings of an env
    * command: `rlcore NAME ...`
    * function: `rlcore.NAME(...)` in Python, which core declares and a plugin carries out
    * wrapper: `env.train.wrappers=[NAME]`, `algorithm.wrappers=[NAME]`
    """
    return []


# -- configuration --------------------------------------------------------------------------


@hookspec
def rlcore_config_paths() -> list[str]:
    """List Hydra search paths (`"pkg://my_plugin.conf"`) with groups env/, model/, algorithm/,
    experiment/. A file `env/NAME.yaml` serves both `env.train` and `env.eval`."""
    return []


@hookspec
def rlcore_settings() -> list[str]:
    """Name the class of this plugin's own settings, `["my_plugin.settings:MySettings"]`: a
    dataclass that extends :class:`rlcore.config.schema.PluginConfig`. They are
    `plugins.NAME.key`, NAME being that of the entry point; `plugins.NAME.enabled=false` leaves out
    the plugin's hooks of a run. A hook finds them as `run.config.plugins.NAME`, a tracker or a
    command as `rlcore.open_run(folder).config().plugins.NAME`."""
    return []


@hookspec
def rlcore_old_keys(layers: list[dict[str, Any]], config: Any | None) -> None:
    """Put old spellings of keys right, in place, as a configuration is composed; a warning says so
    (:func:`rlcore.config.old_names.warn`).

    Args:
        layers: nested values as they were given: those of files, then those of each word of the
            command line. Later ones win.
        config: the defaults of the chosen components, a :class:`rlcore.config.schema.RunConfig`;
            None where they are not known.

    Raises:
        ConfigError: a value whose meaning would be lost.
    """


# -- before a run ---------------------------------------------------------------------------


@hookspec
def rlcore_doctor(config: Any | None) -> list[dict[str, str]]:
    """Check the machine: GL, drivers, assets, environment variables. Returns dicts `{"name",
    "status": "ok" | "warning" | "missing" | "refused", "detail", "fix"}` with `fix` the command
    that mends it. What is missing on the machine, or refused whatever the machine (`name` is the
    key to change), ends a run; a warning ends none. `config` is the resolved run config, or None
    for `rlcore doctor` without one; `config.played` are the envs of it that are played. A plugin
    that brings components is asked about runs with one of them, any other about all runs. Must be
    quick and must not import the simulator into this process."""
    return []


@hookspec
def rlcore_machines(text: str) -> list[Any]:
    """Return the machines that `cluster.inventory` describes: a list of one
    :class:`rlcore.placement.Inventory`. Nothing runs on them: they are planned for. Light.

    Raises:
        PlacementError: they are described in another form, or in a file that can't be read.
    """
    return []


@hookspec
def rlcore_versions(envs: Mapping[str, Any]) -> list[OtherInterpreter]:
    """Name the interpreters of other environments than rlcore's in which envs simulate, as they are
    now: looked at as a run starts, and when simulators were started anew. Their versions stand in
    the manifest, and a line says which ones have changed since the run was last begun.

    Args:
        envs: settings of the envs that are played, by side.

    Raises:
        UserError: one can't be used.
    """
    return []


# -- during a run: called in the driver, not in the workers; results are ignored. `run` is how a
# -- plugin reads and steers it. To `metrics` a hook may add: a name, and a number for it; those
# -- that are there stay as they are. Each plugin's hook is called by itself, and may take
# -- `cluster.timeouts.hook` seconds. If it raises, or adds what is not a metric:
# --
# --     @hookimpl    it steers: the run ends with one error that names the plugin, once the
# --                  finished updates are in a checkpoint
# --     @observer    it watches: one warning that names plugin and hook, and the run goes on
# --
# -- A hook that steers and does not return ends the run. An observer is called on a thread of its
# -- own, while the run waits; if it does not return, it is left behind with a warning, and its
# -- plugin's observers are called no more.


@hookspec
def rlcore_after_rollout(
    run: Run,
    outcomes: Sequence[EpisodeOutcome],
    films: Sequence[Film],
    metrics: dict[str, float],
) -> None:
    """React to the episodes that were played for an update, which comes next.

    Args:
        run: `run.update` updates are done.
        outcomes: how each episode ended, in the order of their addresses, those included that the
            algorithm gives up (`filter_rewards`).
        films: of the episodes that were filmed (`env.train.video_cfg`).
        metrics: `env/*`, `rollout/*` and `time/*` so far; logged once the update is made.
    """


@hookspec
def rlcore_after_update(run: Run, metrics: dict[str, float]) -> None:
    """React to an update of the policy.

    Args:
        run: `run.update` updates are done, this one included.
        metrics: `train/*`, `rollout/*` and `time/*` of the update.
    """


@hookspec
def rlcore_after_eval(
    run: Run, label: str, films: Sequence[Film], metrics: dict[str, float]
) -> None:
    """React to an evaluation; its episodes are in `eval/LABEL.parquet`.

    Args:
        label: "before", "step_000010", "after", "best", "control", "control_best"; with
            "validation/" or "forgetting/" before it, of those; "eval" or "sft" of those commands;
            of a protocol "PROTOCOL/ROW".
        films: of the episodes that were filmed (`env.eval.video_cfg`).
        metrics: `eval/*`.
    """


@hookspec
def rlcore_after_run(run: Run, summary: Mapping[str, Any]) -> None:
    """React to a finished run: all its files are there. Called once, and not for one that was
    interrupted or failed.

    Args:
        summary: what `summary.json` holds (:class:`rlcore.results.summary.Summary`).
    """
