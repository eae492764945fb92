"""Check a configuration and run a loop on it, with callbacks that are called like plugins.

Draft --checks--> Assembly --> loop
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from rlcore.config.schema import RunConfig
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.contracts.hookspecs import hookimpl
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

if TYPE_CHECKING:
    from rlcore.checks.ready import Purpose
    from rlcore.contracts.run import Run

Callback = Callable[["Run", Mapping[str, float]], object]


@dataclass(frozen=True)
class Draft:
    """A configuration to run, which may have errors that are still to be reported.

    Attributes:
        config: the configuration, with defaults in place of invalid values.
        errors: errors found while composing it.
        words: command-line words that it was composed from.
    """

    config: RunConfig
    errors: Sequence[UserError] = ()
    words: Sequence[str] = ()


def start(
    loop: str,
    draft: Draft,
    *,
    further: Mapping[str, RunConfig] | None = None,
    purpose: Purpose = "updates",
    plays_train: bool = False,
    callbacks: Sequence[Callback | object] = (),
    loop_arguments: Mapping[str, Any] | None = None,
) -> Any:
    """Check a configuration, then run a loop on it, and return the loop's result.

    Args:
        loop: `"module:function"` that takes the :class:`rlcore.training.assembly.Assembly`.
        draft: configuration to run.
        further: configurations of further sides to evaluate on, by the name of their side.
        purpose: what the loop does, whatever the configuration says.
        plays_train: whether the loop plays `env.train` even if the configuration only evaluates.
        callbacks: as for :func:`rlcore.api.train`.
        loop_arguments: further keyword arguments of the loop.

    Raises:
        UserError: one error that lists all obstacles to the start; or what the loop raises.
    """
    from rlcore.checks.ready import find_obstacles, require

    config = draft.config
    registry = load_plugins()
    plugins = {
        f"callback {number}, {_name_of(callback)}": (
            _PerUpdate(callback) if callable(callback) else callback
        )
        for number, callback in enumerate(callbacks, 1)
    }
    with registry.with_callbacks(plugins), _joined(config):
        facts, findings = find_obstacles(
            config,
            registry,
            further,
            errors=draft.errors,
            words=draft.words,
            purpose=purpose,
            plays_train=plays_train,
        )
        for finding in findings:
            if finding.status == "warning":
                warn(f"{finding.text}; {finding.fix}" if finding.fix else finding.text)
        require(findings)
        # imported here, so that a refusal does not wait for it
        from rlcore.training.assembly import assemble

        assembly = assemble(config, registry, further, trains=plays_train, facts=facts)
        return load_target(loop)(assembly, **loop_arguments or {})


def _joined(config: RunConfig) -> contextlib.AbstractContextManager[None]:
    """Return a context in which the run is joined to an existing cluster, if it names one.

    The placement needs the nodes of that cluster, so it is joined before the checks. A cluster that
    the run starts itself is started later, after all checks have passed.
    """
    from rlcore.placement import joins
    from rlcore.workers.backend import load_backend

    if not joins(config.cluster):
        return contextlib.nullcontext()
    return load_backend(config.cluster).session(config.cluster)


def _name_of(callback: object) -> str:
    return (callback if isinstance(callback, FunctionType) else type(callback)).__qualname__


class _PerUpdate:
    """Adapter that calls a function from the hook `rlcore_after_update`.

    Raises:
        ConfigError: the function can't be called with two arguments.
    """

    def __init__(self, callback: Callback) -> None:
        try:
            inspect.signature(callback).bind(None, None)
        except TypeError as error:  # refused now, not after hours in the first update
            raise ConfigError(
                f"callback {_name_of(callback)} can't be called with (run, metrics): {error}",
                hint="def callback(run, metrics): ...",
            ) from None
        self._callback = callback

    @hookimpl
    def rlcore_after_update(self, run: Run, metrics: dict[str, float]) -> None:
        self._callback(run, metrics)
