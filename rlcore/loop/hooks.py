"""The hooks that plugins have during a run. One that fails is told by name, and costs no update.

What a hook raises is kept until the loop has come to a good place: the updates that are finished
are in a checkpoint by then (see :func:`rlcore.loop.train.reinforce`). Metrics are handed out as a
copy, and what hooks add comes back only where it can be logged.
"""

from __future__ import annotations

import inspect
import numbers
import traceback
from collections.abc import Mapping
from typing import Any

import pluggy

from rlcore import watchdog
from rlcore.errors import PluginError, UserError


class HookError(PluginError):
    """A hook of a plugin raised."""

    exit_code = 1


class RunHooks:
    """Calls the run-phase hooks of all plugins.

    Args:
        manager: of the registry.
        timeout: seconds a hook may take; only the command line's process is ended for it.
    """

    def __init__(self, manager: pluggy.PluginManager, timeout: float) -> None:
        self._manager = manager
        self._timeout = timeout
        self._failure: HookError | None = None

    @property
    def failed(self) -> bool:
        """Whether a hook has raised."""
        return self._failure is not None

    def call(self, hook: str, *, metrics: dict[str, float] | None = None, **arguments: Any) -> None:
        """Call a hook of all plugins; what it raises is kept for :meth:`check`.

        Args:
            metrics: for a hook that may add to them; what it does to those that are there already,
                and what is no number, is as an error that it raises.

        Raises:
            KeyboardInterrupt: the user's, who is not to be kept waiting.
        """
        caller = self._manager.subset_hook_caller(hook, [])
        if not caller.get_hookimpls():
            return
        names = ", ".join(impl.plugin_name for impl in caller.get_hookimpls())
        told = None if metrics is None else dict(metrics)
        if told is not None:
            arguments["metrics"] = told
        late = f"{hook} of plugin {names} has not returned within {self._timeout:.0f} s"
        hint = "raise cluster.timeouts.hook, or set RLCORE_BLOCK_PLUGINS to leave a plugin out"
        with watchdog.limit(HookError(late, hint=hint), self._timeout):
            try:
                caller(**arguments)
            except KeyboardInterrupt:
                raise
            except (
                BaseException
            ) as error:  # SystemExit, GeneratorExit, a plugin's own: all the same
                self._failure = self._failure or self._named(hook, error)
        if metrics is not None and told is not None:
            added, wrong = _additions(metrics, dict(told))  # a thread may still be writing to it
            metrics |= added
            if wrong:
                hint = (
                    "a hook may add metrics: a name, and a number for it; rlcore resume RUN goes on"
                )
                failure = HookError(f"{hook} of plugin {names} {wrong}", hint=hint)
                self._failure = self._failure or failure

    def check(self) -> None:
        """Raise what the first failing hook raised.

        Raises:
            HookError: it names the plugin and the hook.
        """
        if self._failure is not None:
            raise self._failure

    def _named(self, hook: str, error: BaseException) -> HookError:
        """The error with its plugin, which is the one whose function stands in the traceback."""
        whose, trace = "a plugin", error.__traceback__
        impls = self._manager.subset_hook_caller(hook, []).get_hookimpls()
        called = {inspect.unwrap(impl.function).__code__: impl.plugin_name for impl in impls}
        at = trace
        while at is not None:
            if at.tb_frame.f_code in called:
                whose, trace = f"plugin {called[at.tb_frame.f_code]!r}", at
                break
            at = at.tb_next
        hint = "rlcore resume RUN goes on; RLCORE_BLOCK_PLUGINS=NAME leaves a plugin out"
        if isinstance(error, UserError):
            return HookError(f"{whose} failed in {hook}: {error.message}", hint=error.hint or hint)
        text = "".join(traceback.format_exception(type(error), error, trace))
        return HookError(f"{whose} failed in {hook}:\n{text.rstrip()}", hint=hint)


def _additions(
    before: Mapping[str, float], after: Mapping[Any, Any]
) -> tuple[dict[str, float], str]:
    """What hooks added to metrics, as floats, and what they did wrong: the first such thing, in
    words that follow "rlcore_... of plugin NAME"; empty where nothing is."""
    for name, value in before.items():
        if name not in after:
            return {}, f"took out the metric {name!r}"
        if after[name] is not value:
            return {}, f"changed the metric {name!r} from {value} to {_short(after[name])}"
    added: dict[str, float] = {}
    for name, value in after.items():
        if name in before:
            continue
        if not isinstance(name, str):
            return added, f"added a metric named {_short(name)}, which is no text"
        try:
            if not isinstance(value, numbers.Real):
                raise TypeError
            added[name] = float(value)
        except (TypeError, ValueError, OverflowError):
            return added, f"gave the metric {name!r} the value {_short(value)}, which is no number"
    return added, ""


def _short(value: object) -> str:
    """A value for an error, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # a stranger's object
        text = object.__repr__(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
