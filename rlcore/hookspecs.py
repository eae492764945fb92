"""Every hook a plugin can implement, in the order of a run. This page is the contract.

A plugin is a module named by an entry point of the group `rlcore.plugins`. It holds
`RLCORE_API = (major, minor)` and functions decorated with :data:`rlcore.hookimpl`, and imports
neither a simulator nor a tensor library: everything heavy is named by a string. All hooks are
optional; a hook's result is a list unless it says otherwise.

Signatures behind the strings of a :class:`~rlcore.specs.ComponentSpec`:

    env        target(config, *, num_envs, rank, world_size, num_processes) -> Env
               spec(config) -> EnvSpec
    model      target(config, *, env_spec) -> Policy
               spec(config, env_spec) -> PolicySpec
    algorithm  target(config) -> Algorithm           spec(config) -> AlgorithmNeeds
    tracker    target(config, run_dir) -> Tracker
    adapter    target(env_spec, policy_spec) -> (observation -> observation, actions -> actions)
    placement  target(inventory, config) -> component_placement mapping
    protocol   target is a ProtocolSpec
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from rlcore.specs import ComponentSpec

hookspec = pluggy.HookspecMarker("rlcore")
hookimpl = pluggy.HookimplMarker("rlcore")

# -- listing: called by every command, so strings only -------------------------------------


@hookspec
def rlcore_envs() -> list[ComponentSpec]:
    """Envs of this plugin (`env=NAME`)."""
    return []


@hookspec
def rlcore_policies() -> list[ComponentSpec]:
    """Policies of this plugin. In config the word is model (`actor.model.model_type`)."""
    return []


@hookspec
def rlcore_algorithms() -> list[ComponentSpec]:
    """Algorithms of this plugin (`algorithm=NAME`)."""
    return []


@hookspec
def rlcore_placements() -> list[ComponentSpec]:
    """Named placements (`cluster.component_placement: NAME`), e.g. one fitted to a cluster."""
    return []


@hookspec
def rlcore_trackers() -> list[ComponentSpec]:
    """Trackers (`runner.logger.logger_backends: [NAME]`)."""
    return []


@hookspec
def rlcore_adapters() -> list[ComponentSpec]:
    """Adapters for (env, policy) pairs that core can't derive; `name` is `"ENV:MODEL"`."""
    return []


@hookspec
def rlcore_protocols() -> list[ComponentSpec]:
    """Named evaluations of a policy under several settings of an env (`rlcore eval RUN
    protocol=NAME`); `target` names a :class:`rlcore.specs.ProtocolSpec`, and loads no simulator."""
    return []


# -- configuration --------------------------------------------------------------------------


@hookspec
def rlcore_config_paths() -> list[str]:
    """Hydra search paths (`"pkg://my_plugin.conf"`) with groups env/, model/, algorithm/,
    experiment/. A file `env/NAME.yaml` serves both `env.train` and `env.eval`."""
    return []


# -- before a run ---------------------------------------------------------------------------


@hookspec
def rlcore_doctor(config: Any | None) -> list[dict[str, str]]:
    """Checks of the machine: GL, drivers, assets, environment variables. Returns dicts
    `{"name", "status": "ok" | "missing", "detail", "fix"}` with `fix` the command that mends it.
    `config` is the resolved run config, or None for `rlcore doctor` without one. Must be quick
    and must not import the simulator into this process."""
    return []


# -- during a run: called in the driver, in this order each update; results are ignored. To
# -- `metrics` a hook may add: names, and numbers for them; those that are there stay as they are


@hookspec
def rlcore_before_rollout(run: Any, update: int) -> None:
    """A rollout is about to start."""


@hookspec
def rlcore_after_rollout(run: Any, update: int, metrics: dict[str, float]) -> None:
    """A rollout ended; `metrics` may be added to."""


@hookspec
def rlcore_before_update(run: Any, update: int) -> None:
    """The policy is about to be updated."""


@hookspec
def rlcore_after_update(run: Any, update: int, metrics: dict[str, float]) -> None:
    """The policy was updated; `metrics` may be added to."""


@hookspec
def rlcore_before_eval(run: Any, update: int) -> None:
    """An evaluation is about to start."""


@hookspec
def rlcore_after_eval(run: Any, update: int, metrics: dict[str, float]) -> None:
    """An evaluation ended; `metrics` may be added to."""


@hookspec
def rlcore_before_checkpoint(run: Any, update: int) -> None:
    """A checkpoint is about to be written."""


@hookspec
def rlcore_after_checkpoint(run: Any, update: int, path: Path) -> None:
    """A checkpoint was written to `path`."""
