"""The hooks that plugins have during a run. One that fails is told by name, and costs no update.

What a hook raises is kept until the loop has come to a good place: the updates that are finished
are in a checkpoint by then (see :func:`rlcore.loop.train.reinforce`).
"""

from __future__ import annotations

import inspect
import traceback
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

    def call(self, hook: str, **arguments: Any) -> None:
        """Call a hook of all plugins; what it raises is kept for :meth:`check`.

        Raises:
            KeyboardInterrupt: the user's, who is not to be kept waiting.
        """
        caller = self._manager.subset_hook_caller(hook, [])
        if not caller.get_hookimpls():
            return
        names = ", ".join(impl.plugin_name for impl in caller.get_hookimpls())
        late = f"{hook} of plugin {names} has not returned within {self._timeout:.0f} s"
        hint = "raise cluster.timeouts.hook, or set RLCORE_BLOCK_PLUGINS to leave a plugin out"
        with watchdog.limit(HookError(late, hint=hint), self._timeout):
            try:
                caller(**arguments)
            except (Exception, SystemExit) as error:
                self._failure = self._failure or self._named(hook, error)

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
