"""Whether each node has the files that its workers need: asked of the nodes before a worker starts.

Weights are read wherever a policy is, simulators and their assets wherever an env is, and data sets
wherever one learns. Checkpoints are written by the actor and read by all that hold a policy: files
are sent to and from those of their nodes that don't see the run's folder (:mod:`.depot`).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlcore.config import tree
from rlcore.config.schema import RunConfig
from rlcore.errors import AssetError
from rlcore.workers import probe
from rlcore.workers.depot import absolute
from rlcore.workers.joined import ask_nodes
from rlcore.workers.roles import has_component
from rlcore.workers.roster import Roster

READERS = {"env": ("env",), "actor": ("rollout", "actor"), "rollout": ("rollout", "actor"),
           "collect": ("actor",)}  # fmt: skip
"""Which components read the places that a section names."""
GIVE = "copy it there, or give a place on storage that all nodes mount (docs/cluster.md)"


def require_equipped(
    config: RunConfig, roster: Roster, plugins: Mapping[str, set[str]], runs: Path
) -> dict[int, frozenset[str]]:
    """Ask every node for what its workers need.

    Args:
        plugins: names of the plugins of a component, "env" or "actor".
        runs: where the run's folder is, or is going to be.

    Returns:
        :attr:`rlcore.workers.roster.Roster.apart`.

    Raises:
        AssetError: says which node lacks what.
    """
    timeout = roster.cluster.timeouts.start
    ids = [node.id for node in roster.nodes]
    held = seated(roster)
    wanted = [_wanted(config, here) for here in held]
    with _token(runs) as token:
        paths = sorted({place for places in wanted for place in places.values()})
        absent = ask_nodes(ids, probe.absent, ([*paths, str(token)],), timeout)
    said = list(_without(roster, wanted, absent))
    for component, named in plugins.items():
        here = [n for n, components in enumerate(held) if component in components]
        answers = ask_nodes([ids[n] for n in here], probe.ailing, (config, named), timeout)
        said += [
            f"{roster.node_name(n)} lacks {found}"
            for n, answer in zip(here, answers, strict=True)
            for found in answer
        ]
    if said:
        raise AssetError("; ".join(said), hint=GIVE)
    return {
        number: frozenset(map(absolute, wanted[number].values()))
        for number, missing in enumerate(absent)
        if str(token) in missing and held[number] & {"rollout", "actor"}
    }


def apart_line(roster: Roster) -> str:
    """What to say of nodes that don't see the run's folder."""
    named = ", ".join(roster.node_name(number) for number in sorted(roster.apart))
    return f"not seen from {named}: what policies there write and read is sent (docs/cluster.md)"


def seated(roster: Roster) -> list[set[str]]:
    """The components on each node."""
    found: list[set[str]] = [set() for _ in roster.nodes]
    for role, members in roster.members.items():
        for member in members:
            found[member.seat.node] |= {
                name for name in ("env", "rollout", "actor") if has_component(role, name)
            }
    return found


def _wanted(config: RunConfig, components: set[str]) -> dict[str, str]:
    """`{key: place}` that a node with these components reads; those that the driver has."""
    return {
        key.path: key.value
        for key in tree.walk(config)
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


def _without(
    roster: Roster, wanted: Sequence[Mapping[str, str]], absent: Sequence[Sequence[str]]
) -> Iterator[str]:
    for number, (places, missing) in enumerate(zip(wanted, absent, strict=True)):
        for key, place in places.items():
            if place in missing:
                yield f"{roster.node_name(number)} lacks {key}={place}"
