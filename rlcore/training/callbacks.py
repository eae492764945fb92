"""Call the run hooks of plugins with a timeout, and attribute their errors to the plugin.

A failing observer causes one warning; an observer that times out is disabled. Errors of other hooks
are stored until the finished updates are in a checkpoint (see
:func:`rlcore.training.train.reinforce`). Hooks get a copy of the metrics; metrics that they add to
it are added to the run's.
"""

from __future__ import annotations

import numbers
import signal
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pluggy

from rlcore.config.schema import PluginsConfig
from rlcore.contracts.errors import PluginError, RunWarning, UserError, warn
from rlcore.contracts.hookspecs import OBSERVER
from rlcore.contracts.run import Run
from rlcore.plugins.entry_points import LEAVE_OUT
from rlcore.runs.metrics import LINE
from rlcore.utils import watchdog
from rlcore.utils.call_with_timeout import call_with_timeout
from rlcore.utils.text import format_exception, shorten

FINISHED = "rlcore_after_run"
MAY_ADD = "a hook may add metrics: a name that no line of metrics.jsonl has already, and a number"


class HookError(PluginError):
    """A hook of a plugin raised."""

    exit_code = 1


class ObserverWarning(RunWarning):
    """An observer of a plugin raised, or did not return in time."""


class RunHooks:
    """Caller of the run-phase hooks of all plugins.

    Args:
        manager: plugin manager of the registry.
        timeout: seconds that a hook may take. An observer that takes longer is disabled; for any
            other hook the process is ended, if it is the command line's.
        plugins: settings of plugins; disabled plugins are not called.
    """

    def __init__(
        self, manager: pluggy.PluginManager, timeout: float, plugins: PluginsConfig | None = None
    ) -> None:
        self._manager = manager
        self._excluded = (plugins or PluginsConfig()).disabled
        self._timeout = timeout
        self._failure: HookError | None = None
        self._warned: set[tuple[str, str]] = set()  # (plugin, hook)
        self._disabled: set[str] = set()  # names of plugins with an observer that timed out

    @property
    def failed(self) -> bool:
        """Whether a hook other than an observer's has raised."""
        return self._failure is not None

    def check(self) -> None:
        """Raise the error of the first failing hook, if one has failed.

        Raises:
            HookError: the error, with the names of the plugin and the hook.
        """
        if self._failure is not None:
            raise self._failure

    def call(
        self, hook: str, *, run: Run, metrics: dict[str, float] | None = None, **others: Any
    ) -> None:
        """Call a hook of all plugins, one after another.

        An error is stored for :meth:`check`; an observer's error is a warning.

        Args:
            hook: name of the hook.
            run: the run. Changes of its `steering` take effect, except those of an observer that
                times out.
            metrics: metrics of the run, to which the metrics that hooks add are added.
            others: further arguments of the hook.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C.
        """
        for impl in reversed(self._manager.subset_hook_caller(hook, []).get_hookimpls()):
            if impl.plugin_name.replace("-", "_") in self._excluded:
                continue
            if _observes(impl) and impl.plugin_name in self._disabled:
                continue
            # an observer gets a copy, which its thread may still change after a timeout
            hook_run = replace(run, steering=replace(run.steering)) if _observes(impl) else run
            hook_metrics = dict(metrics or {})
            try:
                self._call(hook, impl, {**others, "metrics": hook_metrics, "run": hook_run})
                if metrics is not None:
                    metrics |= _added_metrics(hook, impl, metrics, hook_metrics)
            except HookError as error:
                self._note(hook, impl, error)
            if impl.plugin_name not in self._disabled:
                vars(run.steering).update(vars(hook_run.steering))

    def _call(self, hook: str, impl: pluggy.HookImpl, arguments: Mapping[str, Any]) -> None:
        """Call one plugin's hook with the arguments that it declares.

        Raises:
            HookError: the hook raised or timed out; the error names the plugin.
        """
        call = partial(impl.function, **{name: arguments[name] for name in impl.argnames})
        timed_out = HookError(
            f"plugin {impl.plugin_name!r}: its {hook} has not returned within "
            f"{self._timeout:.0f} s",
            hint=f"raise cluster.timeouts.hook; {_hint(hook, impl)}",
        )
        if _observes(impl):
            try:
                raised = call_with_timeout(call, self._timeout)
            except TimeoutError:
                self._disabled.add(impl.plugin_name)
                raise timed_out from None
            if raised is not None:
                raise _hook_error(hook, impl, raised) from raised
            return
        with watchdog.time_limit(timed_out, self._timeout):
            try:
                call()
            except KeyboardInterrupt:
                signal.raise_signal(signal.SIGINT)  # handled as a Ctrl-C outside of a hook is
            except BaseException as error:  # SystemExit and a plugin's own classes too
                raise _hook_error(hook, impl, error) from error

    def _note(self, hook: str, impl: pluggy.HookImpl, error: HookError) -> None:
        """Store the first error of the run, or warn once of an observer's."""
        if not _observes(impl):
            self._failure = self._failure or error
        elif (impl.plugin_name, hook) not in self._warned:
            self._warned.add((impl.plugin_name, hook))
            warn(f"{error}", ObserverWarning)


def _hook_error(hook: str, impl: pluggy.HookImpl, error: BaseException) -> HookError:
    """Return an error that names the plugin, with the traceback below the call of its hook."""
    subject = f"plugin {impl.plugin_name!r} failed in {hook}"
    if isinstance(error, UserError):
        return HookError(f"{subject}: {error.message}", hint=error.hint or _hint(hook, impl))
    own_frame = error.__traceback__  # the frame that made the call
    trace = own_frame if own_frame is None else own_frame.tb_next or own_frame
    return HookError(f"{subject}: {format_exception(error, trace)}", hint=_hint(hook, impl))


def _observes(impl: pluggy.HookImpl) -> bool:
    # the attribute is missing if the plugin did not mark its function
    return bool(getattr(impl.function, OBSERVER, False))


def _hint(hook: str, impl: pluggy.HookImpl) -> str:
    if _observes(impl):
        return f"it only observes, so the run goes on; {LEAVE_OUT}"
    return LEAVE_OUT if hook == FINISHED else f"rlcore resume RUN goes on; {LEAVE_OUT}"


def _added_metrics(
    hook: str, impl: pluggy.HookImpl, before: Mapping[str, float], after: Mapping[Any, Any]
) -> dict[str, float]:
    """Return the metrics that a hook added, as floats.

    Args:
        hook: name of the hook.
        impl: the plugin's implementation.
        before: metrics before the call.
        after: metrics after the call.

    Raises:
        HookError: the hook changed or removed a metric, or added one that can't be logged.
    """
    for name, value in before.items():
        if after.get(name) is not value:
            current = shorten(after[name]) if name in after else "nothing"
            fault = f"it changed the metric {name!r} from {value} to {current}"
            raise _hook_error(hook, impl, PluginError(f"{fault}; {MAY_ADD}"))
    added = {name: value for name, value in after.items() if name not in before}
    for name, value in added.items():
        try:
            if not isinstance(name, str) or name in LINE or not isinstance(value, numbers.Real):
                raise TypeError
            added[name] = float(value)
        except (TypeError, OverflowError):
            fault = f"it added the metric {shorten(name)}: {shorten(value)}"
            raise _hook_error(hook, impl, PluginError(f"{fault}; {MAY_ADD}")) from None
    return added
