"""Check on each node, before a worker starts, that the files its workers need are there.

Policies read weights, envs read simulators and their assets, learners read data sets. The actor
writes checkpoints, and all processes with a policy read them: files are copied to and from nodes
that don't see the run's folder (:mod:`.file_transfer`).
"""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from rlcore.config import schema_tree
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import AssetError
from rlcore.plugins import extras
from rlcore.plugins.registry import Component, Registry
from rlcore.workers.env_worker import EnvWorkerSettings
from rlcore.workers.roles import has_component
from rlcore.workers.worker_specs import WorkerSpecs
from rlcore_ray import node_probe
from rlcore_ray.file_transfer import absolute
from rlcore_ray.nodes import ask_nodes

READERS = {"env": ("env",), "actor": ("rollout", "actor"), "rollout": ("rollout", "actor"),
           "collect": ("actor",)}  # fmt: skip
"""Components that read the paths in a section of the configuration."""
GIVE = (
    "copy or install it there, or give a place on storage that all nodes mount, and see that it is "
    "mounted (docs/cluster.md)"
)
LEVELS = {"env": 1, "actor": 4, "rollout": 4, "collect": 4}
"""How deep files of a folder must be the same on each node, by the section that names it: as deep
as weights may lie, but an env's assets may be a hundred thousand files."""
NAMED = 3  # files that an error names


def require_node_files(
    config: RunConfig,
    worker_specs: WorkerSpecs,
    chosen: Mapping[str, Sequence[Component]],
    runs: Path,
) -> dict[int, frozenset[str]]:
    """Check that every node has the files and packages that its workers need.

    Args:
        chosen: plugin components that workers load, by "env", "rollout", "actor".
        runs: parent of the run's folder, which may not exist yet.

    Returns:
        :attr:`rlcore.workers.worker_specs.WorkerSpecs.unshared_nodes`.

    Raises:
        AssetError: a node lacks something; the error names every node and what it lacks.
    """
    timeout = worker_specs.cluster.timeouts.start
    ids = {number: node.id for number, node in enumerate(worker_specs.nodes)}
    components = components_by_node(worker_specs)
    wanted = [_wanted(config, here) for here in components]
    named = {place: key.split(".")[0] for places in wanted for key, place in places.items()}
    levels = {place: LEVELS[section] for place, section in named.items()}
    with _token(runs) as token:
        held = ask_nodes(ids, node_probe.held, ({**levels, str(token): 0},), timeout)
    said = list(_without(worker_specs, wanted, held, node_probe.held(levels)))
    for kinds in sorted(set(map(frozenset, components)), key=sorted):
        here = [n for n, those in enumerate(components) if those == kinds]
        loaded = list(dict.fromkeys(one for kind in sorted(kinds) for one in chosen.get(kind, ())))
        targets = [name for one in loaded for name in (one.spec.config, one.spec.target) if name]
        plugins, packages = {one.plugin for one in loaded}, _packages(config, loaded)
        # pickled here, as it is of classes that may be missing there
        question = (pickle.dumps(config), plugins, targets, packages)
        answers = ask_nodes({n: ids[n] for n in here}, node_probe.ailing, question, timeout)
        said += [
            f"{worker_specs.node_name(n)} lacks {found}"
            for n, answer in zip(here, answers, strict=True)
            for found in answer
        ]
    if said:
        raise AssetError("; ".join(said), hint=GIVE)
    return {
        number: frozenset(map(absolute, wanted[number].values()))
        for number, there in enumerate(held)
        if there[str(token)] is None and components[number] & {"rollout", "actor"}
    }


def components_of(
    config: RunConfig, worker_specs: WorkerSpecs, registry: Registry
) -> dict[str, list[Component]]:
    """What the workers load: "env", and with a policy "rollout" and "actor"."""
    workers = [one.settings for one in worker_specs.members_of("env")]
    sides = [one.sides.values() for one in workers if isinstance(one, EnvWorkerSettings)]
    envs = sorted({side.config.env_type for side in chain(*sides)})
    chosen = {"env": [registry.get("env", name) for name in envs]}
    if config.actor.model.model_type and worker_specs.members_of("actor"):
        chosen["rollout"] = [registry.get("model", config.actor.model.model_type)]
        name = config.algorithm.name
        chosen["actor"] = chosen["rollout"] + ([registry.get("algorithm", name)] if name else [])
    return chosen


def components_by_node(worker_specs: WorkerSpecs) -> list[set[str]]:
    """Return the components ("env", "rollout", "actor") on each node."""
    found: list[set[str]] = [set() for _ in worker_specs.nodes]
    for role, members in worker_specs.members.items():
        for member in members:
            found[member.allocation.node] |= {
                name for name in ("env", "rollout", "actor") if has_component(role, name)
            }
    return found


def _wanted(config: RunConfig, components: set[str]) -> dict[str, str]:
    """`{key: place}` that a node with these components reads; those that the driver has."""
    return {
        key.path: key.value
        for key in schema_tree.walk(config)
        if key.place not in (None, "written")
        and isinstance(key.value, str)
        and components.intersection(READERS.get(key.path.split(".")[0], ()))
        and Path(key.value).expanduser().exists()
    }


@contextlib.contextmanager
def _token(runs: Path) -> Iterator[Path]:
    """A file where the runs' folders are, or in the first folder there is above it."""
    place = runs.expanduser().absolute()
    folder = next(one for one in (place, *place.parents) if one.is_dir())
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".rlcore-") as file:
        yield Path(file.name)


def _packages(config: RunConfig, loaded: Sequence[Component]) -> list[str]:
    """Distributions that simulators in rlcore's own interpreter import, as far as they are here."""
    own = {env.env_type for env in config.active_envs.values() if env.interpreter() is None}
    specs = [one.spec for one in loaded if one.spec.kind == "env" and one.spec.name in own]
    names = [name for spec in specs for name in spec.requirement_names]
    absent = extras.lacking(names)
    return [name for name in names if name not in absent]


def _without(
    worker_specs: WorkerSpecs,
    wanted: Sequence[Mapping[str, str]],
    held: Sequence[Mapping[str, Mapping[str, int] | None]],
    here: Mapping[str, Mapping[str, int] | None],
) -> Iterator[str]:
    """Yield a sentence for each path that a node lacks, or whose files differ from those here."""
    for number, places in enumerate(wanted):
        for key, place in places.items():
            there, files, lacking = held[number][place], here[place] or {}, f"{key}={place}"
            if there is not None:
                named = [
                    f"{name} (another of {there[name]} bytes)" if name in there else name
                    for name in sorted(files)
                    if there.get(name) != files[name]
                ]
                if not named:
                    continue
                more = [f"{len(named) - NAMED} more"] if len(named) > NAMED else []
                listed = ", ".join([*named[:NAMED], *more])
                lacking = f"{len(named)} of {len(files)} files of {lacking}: {listed}"
            yield f"{worker_specs.node_name(number)} lacks {lacking}"
