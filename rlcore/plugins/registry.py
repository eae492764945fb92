"""Find and load plugins, isolate their failures, and look up components by name.

    entry points --load--> module --RLCORE_API, hooks--> ComponentSpecs --> Registry

A plugin that fails to load becomes a BAD row with the reason; it never ends a command. Nothing
heavy is imported here: a component's factory is stored as a string until it is loaded
(:func:`rlcore.plugins.import_target.load_target`).

Environment variables:
    RLCORE_PLUGINS        comma list: load only these (entry point or distribution names) and core
    RLCORE_BLOCK_PLUGINS  comma list: do not load these; core is always loaded
    RLCORE_TRACE_HOOKS    any value: write every hook call to stderr
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import Any

import pluggy

from rlcore.contracts import hookspecs
from rlcore.contracts.component import KINDS, ComponentSpec, Kind, OtherInterpreter
from rlcore.contracts.errors import (
    MissingPackageError,
    PluginError,
    choices_message,
    nearest_choice,
)
from rlcore.plugins import extras, trial_import
from rlcore.plugins.entry_points import BLOCK, Installed, installed
from rlcore.plugins.validate import problem_of, require_api, unknown_hook
from rlcore.utils.text import format_exception

SLOW_SECONDS = 2.0  # import time above which a plugin is listed as slow
MISSING = {"status": "missing", "detail": "", "fix": ""}  # defaults of a doctor row's fields


@dataclass(frozen=True)
class Component:
    """A registered component, with the plugin and the distribution that provide it."""

    spec: ComponentSpec
    plugin: str
    distribution: str
    version: str


@dataclass(frozen=True)
class PluginRow:
    """One row of `rlcore plugins`.

    Attributes:
        kind: kind of the component; "plugin" if the row is about a plugin as a whole.
        name: name of the component or plugin.
        distribution, version: distribution that provides it.
        status: "ok", "slow" or "BAD".
        reason: why it is slow or BAD; else empty.
    """

    kind: str
    name: str
    distribution: str
    version: str
    status: str = "ok"
    reason: str = ""


class Registry:
    """The components, config folders and settings that the loaded plugins provide.

    Attributes:
        manager: the pluggy manager, with all plugins that could be loaded.
        config_paths: `(distribution, "pkg://..." or folder)` of the plugins' config groups.
        settings: `"module:attr"` of each plugin's settings class, by plugin name with `_` for `-`.
    """

    def __init__(self) -> None:
        self.manager = pluggy.PluginManager("rlcore")
        self.manager.add_hookspecs(hookspecs)
        self.config_paths: list[tuple[str, str]] = []
        self.settings: dict[str, str] = {}
        self._components: dict[tuple[Kind, str], list[Component]] = defaultdict(list)
        self._rows: list[PluginRow] = []
        self._left_out: list[Installed] = []

    @classmethod
    def load(
        cls,
        plugins: Iterable[Installed] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Registry:
        """Load plugins and return their registry.

        Args:
            plugins: plugins to load; None: those that are installed.
            environ: environment variables, see the module's docstring.
        """
        registry = cls()
        if environ.get("RLCORE_TRACE_HOOKS"):
            registry.manager.trace.root.setwriter(sys.stderr.write)
            registry.manager.enable_tracing()
        for plugin in installed(environ, plugins):
            if plugin.left_out_by:
                registry._left_out.append(plugin)
            else:
                registry._add(plugin)
        return registry

    # -- looking up -------------------------------------------------------------------------

    def get(self, kind: Kind, name: str) -> Component:
        """Return the component of that kind and name.

        Raises:
            PluginError: it does not exist, or several plugins claim the name.
        """
        claims = self._components.get((kind, name), [])
        if len(claims) == 1:
            return claims[0]
        if claims:
            raise PluginError(
                _conflict(claims),
                # Of the last claim, because earlier ones may be rlcore's. The hint names its
                # distribution, because another plugin may have the same name.
                hint=f"remove one of them, or set {BLOCK}={claims[-1].distribution}",
            )
        raise self.not_found(kind, name, self.names(kind))

    def usable(self, kind: Kind, name: str) -> Component:
        """Return the component of that kind and name, after checking that its packages exist.

        Raises:
            PluginError: as for :meth:`get`.
            MissingPackageError: a package that the component needs is not installed.
        """
        component = self.get(kind, name)
        missing = extras.lacking(component.spec.packages)
        if missing:
            raise MissingPackageError(
                f"{kind} {name!r} needs {' and '.join(missing)}, not installed",
                hint=extras.installing(missing),
            )
        return component

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all components of that kind, sorted; also those claimed twice."""
        return sorted(name for name_kind, name in self._components if name_kind == kind)

    def components(self, kind: Kind) -> list[Component]:
        """Return the components of that kind, in loading order: core's first.

        A name that several plugins claim is omitted.
        """
        return [
            claims[0]
            for (claimed_kind, _), claims in self._components.items()
            if claimed_kind == kind and len(claims) == 1
        ]

    def not_found(self, kind: str, name: str, choices: Iterable[str]) -> PluginError:
        """Return the error for a name of `kind` that is not among `choices`, with its likely cause.

        The cause is a plugin that is BAD or left out, a name that a plugin declares unsupported, an
        extra that is not installed, or a misspelling.
        """
        refused = self._refused(kind, name) or self._unsupported(kind, name)
        if refused is not None:
            return refused
        loaded = {row.distribution for row in self.rows()}
        command = extras.offered(kind, name, loaded=loaded)
        if command is not None:
            return MissingPackageError(f"{kind} {name!r} ships as an extra: {command}")
        choices = sorted(choices)
        absent = [other for other in extras.absent_names(kind, loaded) if other not in choices]
        suggestion = nearest_choice(name, [*choices, *absent])
        hint = "rlcore help" if kind == "command" else "rlcore plugins"
        if suggestion in absent:
            refused = self._refused(kind, suggestion)
            command = extras.offered(kind, suggestion, loaded=loaded)
            hint = (refused and refused.hint) or command or hint
        listing = choices_message(name, choices, also=absent, none="none is installed")
        return PluginError(f"there is no {kind} {name!r}{listing}{self.load_failures()}", hint=hint)

    def install_command(self, parts: Iterable[tuple[str, str]]) -> str | None:
        """Return the command that installs the extras of the components `(kind, name)`.

        None if one of them is in no extra, or belongs to a plugin that is BAD or left out.
        """
        loaded = {row.distribution for row in self.rows()}
        needed = set()
        for kind, name in parts:
            extra = extras.extra_that_ships(kind, name, loaded=loaded)
            if extra is None or self._refused(kind, name) is not None:
                return None
            needed.add(extra)
        return extras.install_command(needed)

    def _refused(self, kind: str, name: str) -> PluginError | None:
        """Return an error if the name seems to belong to a plugin that is BAD or left out."""

        def owns(plugin: str, distribution: str) -> bool:
            names = [plugin, extras.short_name(distribution), *extras.names_of(distribution, kind)]
            return any(extras.belongs(name, owner) for owner in names)

        for row in self._rows:
            if row.status == "BAD" and owns(row.name, row.distribution):
                return PluginError(
                    f"{kind} {name!r} can't be used: {_bad(row)}", hint="rlcore doctor"
                )
        for plugin in self._left_out:
            if owns(plugin.name, plugin.distribution):
                command = extras.offered(kind, name, loaded=())
                ships = f" (it ships as an extra: {command})" if command else ""
                return PluginError(
                    f"{kind} {name!r} can't be used: {plugin.left_out_by} leaves out plugin "
                    f"{plugin.name!r} ({plugin.distribution})",
                    hint=f"unset {plugin.left_out_by}{ships}",
                )
        return None

    def _unsupported(self, kind: str, name: str) -> PluginError | None:
        """Return an error if a plugin declares this name unsupported, with the plugin's reason."""
        for claims in self._components.values():
            for claim in claims:
                for line in claim.spec.unsupported:
                    unsupported, _, reason = line.partition(": ")
                    if (claim.spec.kind, unsupported) == (kind, name):
                        return PluginError(
                            f"{kind} {name!r} is not supported: {reason}",
                            hint=f"rlcore train --help {kind}",
                        )
        return None

    def load_failures(self) -> str:
        """Return a sentence that lists :meth:`missing_distributions`; empty if all were loaded.

        It is appended to the error for an unknown name, which one of them may provide.
        """
        failures = "; ".join(self.missing_distributions())
        return failures and f" It may belong to a plugin not loaded (rlcore doctor): {failures}"

    def missing_distributions(self) -> list[str]:
        """Describe the plugins that are installed but not loaded: BAD ones and excluded ones."""
        sentences = [_bad(row) for row in self._rows if row.status == "BAD"]
        for variable in dict.fromkeys(plugin.left_out_by for plugin in self._left_out):
            plugins = [repr(p.name) for p in self._left_out if p.left_out_by == variable]
            sentences.append(f"{variable} leaves out {', '.join(plugins)}")
        return sentences

    def rows(self) -> list[PluginRow]:
        """Return all rows of `rlcore plugins`, sorted by kind, name and distribution.

        A name that several plugins claim has a BAD row for each claim.
        """
        rows = list(self._rows)
        for claims in self._components.values():
            reason = _conflict(claims) if len(claims) > 1 else ""
            status = "BAD" if reason else "ok"
            for claim in claims:
                spec = claim.spec
                origin = (claim.distribution, claim.version)
                rows.append(PluginRow(spec.kind, spec.name, *origin, status, reason))
        order = {kind: index for index, kind in enumerate(KINDS)}
        return sorted(rows, key=lambda r: (order.get(r.kind, 99), r.name, r.distribution))  # type: ignore[call-overload]

    def doctor(
        self, config: Any | None, plugins: set[str] | None = None, *, failures: bool = True
    ) -> list[dict[str, str]]:
        """Return the rows of the plugins' doctor hooks.

        Args:
            config: configuration of the run, or None to check the machine in general.
            plugins: entry-point names of the plugins to ask; None for all.
            failures: whether a hook that raises gives a row too, of status "missing".
        """
        rows: list[dict[str, str]] = []
        for name, module in self.manager.list_name_plugin():
            if plugins is not None and name not in plugins:
                continue
            try:
                for row in self._call(module, "rlcore_doctor", config=config):
                    rows.append({**MISSING, "name": name, **row})
            except Exception as error:  # a plugin may fail in any way
                if failures:
                    detail = f"its doctor failed: {_reason(error)}"
                    rows.append({**MISSING, "name": name, "detail": detail})
        return rows

    def versions(self, envs: Mapping[str, Any], model: Any = None) -> list[OtherInterpreter]:
        """Return the results of the versions hooks of all plugins.

        See :func:`rlcore.contracts.hookspecs.rlcore_versions`.
        """
        return self.call_hook("rlcore_versions", envs=envs, model=model)

    def call_hook(self, hook: str, **arguments: Any) -> list[Any]:
        """Call a hook of all plugins, and return the items of their lists in loading order."""
        modules = [module for _, module in self.manager.list_name_plugin()]
        return [item for module in modules for item in self._call(module, hook, **arguments)]

    @contextmanager
    def with_callbacks(self, named: Mapping[str, object]) -> Iterator[None]:
        """Register objects as plugins inside the context, so that their hooks are called too.

        Args:
            named: objects with hooks, by the name to register them under.

        Raises:
            PluginError: an object has no hooks, or a hook that does not fit its specification.
        """
        with ExitStack() as stack:
            for name, plugin in named.items():
                try:
                    self.manager.register(plugin, name=name)
                    stack.callback(self.manager.unregister, plugin)
                except (pluggy.PluginValidationError, ValueError) as error:
                    raise PluginError(f"{name}: {error}") from None
                if not self.manager.get_hookcallers(plugin):
                    raise PluginError(
                        f"{name} is neither a function nor an object with hooks",
                        hint="mark its functions with rlcore.hookimpl or rlcore.observer",
                    )
                self._check_hooks(plugin)
            yield

    # -- loading ----------------------------------------------------------------------------

    def _add(self, plugin: Installed) -> None:
        """Load a plugin and register its components; any failure in it becomes a BAD row."""
        origin = (plugin.distribution, plugin.version)
        is_ours = extras.is_ours(plugin.distribution)
        module = None
        try:
            if not is_ours:
                trial_import.require_importable(plugin)
            start = monotonic()
            module = plugin.load()
            import_seconds = monotonic() - start
            require_api(module, plugin.distribution)
            if self.manager.has_plugin(plugin.name):
                raise PluginError(
                    f"another plugin has the name {plugin.name!r}: remove one of them, or set "
                    f"{BLOCK}={plugin.distribution}"
                )
            self.manager.register(module, name=plugin.name)
            self._check_hooks(module)
            specs = self._call(module, "rlcore_components")
            paths = self._call(module, "rlcore_config_paths")
            settings = self._call(module, "rlcore_settings")
            if not all(isinstance(target, str) for target in settings):
                raise PluginError(f"rlcore_settings must list texts 'module:Class', got {settings}")
        # A plugin may fail in any way, even by SystemExit; only the user's Ctrl-C is passed on.
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if self.manager.is_registered(module):  # true too if registering failed half-way
                self.manager.unregister(module)
            self._rows.append(PluginRow("plugin", plugin.name, *origin, "BAD", _reason(error)))
            return
        self.config_paths += [(plugin.distribution, str(path)) for path in paths]
        self.settings |= {plugin.name.replace("-", "_"): target for target in settings}
        for spec in specs:
            self._register(spec, plugin.name, origin)
        if import_seconds > SLOW_SECONDS and not is_ours:
            reason = (
                f"importing it took {import_seconds:.1f} s, for which every command waits: name "
                "heavy modules by strings"
            )
            self._rows.append(PluginRow("plugin", plugin.name, *origin, "slow", reason))
        elif not specs:
            self._rows.append(PluginRow("plugin", plugin.name, *origin))

    def _check_hooks(self, module: Any) -> None:
        """Check the hooks of a plugin.

        Raises:
            PluginError: a hook is not marked with `hookimpl`, has no specification, or is a
                wrapper.
        """
        specified = [name for name in vars(hookspecs) if name.startswith("rlcore_")]
        callers = self.manager.get_hookcallers(module) or []
        marked = {caller.name for caller in callers}
        for name in sorted(set(specified).intersection(dir(module)) - marked):
            raise PluginError(f"{name} is not marked: write @rlcore.hookimpl above it")
        for caller in callers:
            if not caller.has_spec():
                raise PluginError(unknown_hook(caller.name, specified))
            for hook in caller.get_hookimpls():
                if hook.plugin is module and (hook.wrapper or hook.hookwrapper):
                    raise PluginError(f"{caller.name} is a hook wrapper, which is never called")

    def _call(self, module: Any, hook: str, **arguments: Any) -> list[Any]:
        """Call a hook of one plugin, and return the items of its list.

        Raises:
            PluginError: the hook returned something other than a list.
        """
        others = [plugin for plugin in self.manager.get_plugins() if plugin is not module]
        results = self.manager.subset_hook_caller(hook, others)(**arguments)
        callers = self.manager.get_hookcallers(module) or []
        if not results and any(caller.name == hook for caller in callers):
            results = [None]  # pluggy drops results that are None
        for result in results:
            if not isinstance(result, list):
                raise PluginError(f"{hook} must return a list, got {type(result).__name__}")
        return [item for result in results for item in result]

    def _register(self, spec: Any, plugin: str, origin: tuple[str, str]) -> None:
        problem = problem_of(spec)
        if not isinstance(spec, ComponentSpec):
            self._rows.append(PluginRow("plugin", plugin, *origin, "BAD", problem))
        elif problem:
            kind = spec.kind if str(spec.kind) in KINDS else "component"
            self._rows.append(PluginRow(kind, str(spec.name), *origin, "BAD", problem))
        else:
            self._components[spec.kind, spec.name].append(Component(spec, plugin, *origin))


@lru_cache(maxsize=1)
def load_plugins() -> Registry:
    """Return the registry of the installed plugins, loaded once in each process."""
    return Registry.load()


def _conflict(claims: list[Component]) -> str:
    """Return the sentence for a name that several plugins claim."""
    first = claims[0]
    owners = " and ".join(f"{claim.distribution} {claim.version}" for claim in claims)
    return f"{first.spec.kind} {first.spec.name!r} is claimed by {owners}"


def _bad(row: PluginRow) -> str:
    """Return the sentence for a BAD row."""
    return f"{row.kind} {row.name!r} ({row.distribution} {row.version}) is BAD: {row.reason}"


def _reason(error: BaseException) -> str:
    """Describe an exception in one line, with the place where an unexpected one was raised."""
    if isinstance(error, PluginError):
        return error.message
    if isinstance(error, pluggy.PluginValidationError):  # most often an argument that was removed
        return " ".join(str(error).split())
    return format_exception(error, error.__traceback__).partition("\n")[0]
