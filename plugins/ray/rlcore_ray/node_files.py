"""Check on each node, before a worker starts, that its workers will find their files.

Policies read weights, envs read simulators and assets, and actors read data sets, all at the paths
in the configuration. Actors also write checkpoints, which all processes with a policy read, so the
nodes of these processes must share the file system of the run's folder.
"""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rlcore.config import schema_tree
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import AssetError
from rlcore.plugins import extras
from rlcore.plugins.registry import Component, Registry
from rlcore.utils.text import abbreviate_list
from rlcore.workers.env_worker import EnvWorkerSettings
from rlcore.workers.roles import has_component
from rlcore.workers.worker_specs import WorkerSpecs
from rlcore_ray import node_probe
from rlcore_ray.nodes import ask_nodes

COMPONENTS = ("env", "rollout", "actor")
POLICY = {"rollout", "actor"}
"""Components that hold a policy."""
READERS = {"env": {"env"}, "actor": POLICY, "rollout": POLICY, "collect": {"actor"}}
"""Components that read the paths in a section of the configuration."""
LEVELS = {"env": 1, "actor": 4, "rollout": 4, "collect": 4}
"""Levels of a folder whose files must be the same on each node, by the section that names it.

Weights may be that deep, but the assets of an env may be a hundred thousand files.
"""
SHOWN = 3  # number of files that an error names
HINT = (
    "copy or install it there, or give a place on storage that all nodes mount, and see that it is "
    "mounted (docs/cluster.md)"
)


def require_node_files(
    config: RunConfig,
    worker_specs: WorkerSpecs,
    plugins: Mapping[str, Sequence[Component]],
    runs: Path,
) -> None:
    """Check that every node has the files and packages that its workers need.

    Args:
        plugins: components of plugins that workers load, by "env", "rollout" and "actor".
        runs: parent of the run's folder; it may not exist yet.

    Raises:
        AssetError: a node lacks something; the error names every node and what it lacks.
    """
    components = components_by_node(worker_specs)
    paths = [_paths_read(config, names) for names in components]
    with _marker(runs) as marker:
        arguments = [
            ({**_levels(read), marker: 0}, *_code_needed(config, names, plugins))
            for read, names in zip(paths, components, strict=True)
        ]
        answers = ask_nodes(
            [node.id for node in worker_specs.nodes],
            node_probe.inspect,
            arguments,
            worker_specs.cluster.timeouts.start,
        )
    lacking = []
    for number, (listing, missing) in enumerate(answers):
        lines = [*_missing_files(paths[number], listing), *missing]
        if listing[marker] is None and components[number] & POLICY:
            lines.append(f"the run's folder, which is to be in {runs}")
        lacking += [f"{worker_specs.node_name(number)} lacks {line}" for line in lines]
    if lacking:
        raise AssetError("; ".join(lacking), hint=HINT)


def plugin_components(
    config: RunConfig, worker_specs: WorkerSpecs, registry: Registry
) -> dict[str, list[Component]]:
    """Return the components of plugins that workers load, by "env", "rollout" and "actor"."""
    envs = {
        side.config.env_type
        for member in worker_specs.members_of("env")
        if isinstance(member.settings, EnvWorkerSettings)
        for side in member.settings.sides.values()
    }
    plugins = {"env": [registry.get("env", name) for name in sorted(envs)]}
    if config.actor.model.model_type and worker_specs.members_of("actor"):
        model = registry.get("model", config.actor.model.model_type)
        algorithm = config.algorithm.name
        plugins["rollout"] = [model]
        plugins["actor"] = [model, *([registry.get("algorithm", algorithm)] if algorithm else [])]
    return plugins


def components_by_node(worker_specs: WorkerSpecs) -> list[set[str]]:
    """Return the components ("env", "rollout", "actor") on each node."""
    components: list[set[str]] = [set() for _ in worker_specs.nodes]
    for role, members in worker_specs.members.items():
        for member in members:
            components[member.allocation.node].update(
                name for name in COMPONENTS if has_component(role, name)
            )
    return components


def _paths_read(config: RunConfig, components: set[str]) -> dict[str, str]:
    """Return the existing paths that a node with these components reads, by key."""
    return {
        key.path: key.value
        for key in schema_tree.walk(config)
        if key.place not in (None, "written")
        and isinstance(key.value, str)
        and components & READERS.get(key.path.split(".")[0], set())
        and Path(key.value).expanduser().exists()
    }


def _levels(paths: Mapping[str, str]) -> dict[str, int]:
    """Return the levels of each path that must be the same on each node.

    Args:
        paths: paths by key.
    """
    return {path: LEVELS[key.split(".")[0]] for key, path in paths.items()}


@contextlib.contextmanager
def _marker(runs: Path) -> Iterator[str]:
    """Yield the path of a temporary file in the parent of run folders.

    If that folder does not exist yet, the file is in the first existing folder above it.
    """
    absolute = runs.expanduser().absolute()
    folder = next(parent for parent in (absolute, *absolute.parents) if parent.is_dir())
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".rlcore-") as file:
        yield file.name


def _code_needed(
    config: RunConfig, names: set[str], plugins: Mapping[str, Sequence[Component]]
) -> tuple[bytes, set[str], list[str], list[str]]:
    """Return the last arguments of :func:`rlcore_ray.node_probe.inspect`.

    Args:
        names: the components on the node.
        plugins: see :func:`require_node_files`.
    """
    components = dict.fromkeys(
        component for name in sorted(names) for component in plugins.get(name, ())
    )
    targets = [
        target
        for component in components
        for target in (component.spec.config, component.spec.target)
        if target
    ]
    modules = {component.plugin for component in components}
    # pickled here, because a node may lack the classes of the configuration
    return pickle.dumps(config), modules, targets, _packages(config, components)


def _packages(config: RunConfig, components: Iterable[Component]) -> list[str]:
    """Return the installed packages that simulators in rlcore's own interpreter import."""
    envs = {env.env_type for env in config.active_envs.values() if env.interpreter() is None}
    names = [
        name
        for component in components
        if component.spec.kind == "env" and component.spec.name in envs
        for name in component.spec.requirement_names
    ]
    absent = extras.lacking(names)
    return [name for name in names if name not in absent]


def _missing_files(
    paths: Mapping[str, str], listing: Mapping[str, Mapping[str, int] | None]
) -> Iterator[str]:
    """Describe each path that a node lacks, or whose files differ from those on this machine.

    Args:
        paths: the paths that the node reads, by key.
        listing: the node's answer to :func:`rlcore_ray.node_probe.list_files`.
    """
    own = node_probe.list_files(_levels(paths))
    for key, path in paths.items():
        found = listing[path]
        expected = own[path] or {}
        if found is None:
            yield f"{key}={path}"
            continue
        different = [name for name in sorted(expected) if found.get(name) != expected[name]]
        if different:
            yield (
                f"{len(different)} of {len(expected)} files of {key}={path}: "
                f"{abbreviate_list(different, SHOWN)}"
            )
