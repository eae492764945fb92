"""Join or start the Ray cluster below a group of workers, and shut it down."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import ray
from ray.job_config import JobConfig

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import ConfigError, PlacementError, WorkerError
from rlcore.placement import joins
from rlcore.placement.inventory import local_cpus
from rlcore.process import signals, watchdog
from rlcore.workers.worker_specs import WorkerSpecs
from rlcore_ray.health import RayHealth
from rlcore_ray.preflight import require_startable

TOKEN_BYTES = 32
SHUTDOWN_SECONDS = 30.0  # Ray looks for each of its processes, also for those that are gone
SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # an empty frame; its fourth byte is the kind
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
"""How a client of HTTP/2, as gRPC is, begins; a server answers with settings of its own."""
OBJECT_STORE_BYTES = 1_000_000_000  # observations in flight; plasma maps it lazily


@contextlib.contextmanager
def cluster_session(cluster: ClusterConfig) -> Iterator[None]:
    """Join a Ray cluster, or start one here and shut it down at the end.

    Nested sessions (a sweep around its jobs, a test session around its tests) share it.
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray >= 2.51 would otherwise blank the accelerator variables of actors with num_gpus=0
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _close_doors(ours=not joins(cluster))
    if cluster.address is None or not joins(cluster):
        require_startable()
    else:
        require_answer(cluster.address, cluster.timeouts.ray)
    with watchdog.mark_children():
        _start(cluster)
        health = RayHealth(cluster.timeouts.ray)
        try:
            yield
        finally:
            if ray.is_initialized():
                if health.trouble() is not None:
                    watchdog.kill_started()
                _shut_down(health)


def _start(cluster: ClusterConfig) -> None:
    """Raises WorkerError where Ray does not start, or can't be joined."""
    local, start = not joins(cluster), cluster.timeouts.start
    late = WorkerError(f"Ray did not start within {start:g} s (cluster.timeouts.start)")
    try:
        # Ray replaces the handler of SIGTERM by one that exits without a message. What it starts
        # does not end with the terminal: workers are needed for the checkpoint.
        hangup = dict.fromkeys(signals.HANGUP, signal.SIG_IGN)
        with watchdog.limit(late, start), signals.handlers(hangup):
            ray.init(
                address="local" if local else cluster.address,
                # those that were planned for: Ray would count, and start a process for, all cores
                num_cpus=local_cpus() if local else None,
                include_dashboard=False if local else None,
                object_store_memory=OBJECT_STORE_BYTES if local else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
                job_config=_job(),
            )
    except Exception as error:  # Ray raises bare exceptions here
        raise WorkerError(
            f"Ray did not start: {_told(error)}",
            hint="its logs are in /tmp/ray/session_latest/logs (RAY_TMPDIR, TMPDIR); on an "
            "overloaded machine try again; cluster.backend=local does without Ray"
            if local
            else f"ray status --address={cluster.address}; leave cluster.address out to start a "
            "cluster here",
        ) from error


def _told(error: Exception) -> str:
    """Ray's first line; all of it where versions differ, as the versions come below."""
    text = str(error)
    return " ".join(text.split()) if "ersion mismatch" in text else text.splitlines()[0]


def kill_cluster(health: RayHealth) -> None:
    """End a cluster whose own processes are gone or stopped, without asking it for anything; the
    next session may start another one."""
    watchdog.kill_started()
    _shut_down(health)


def _shut_down(health: RayHealth) -> None:
    """Leave the cluster, without the messages that Ray has stored to print at the end."""
    with health.answering("shutdown", SHUTDOWN_SECONDS), contextlib.redirect_stdout(io.StringIO()):
        ray.shutdown()


def require_answer(address: str, timeout: float) -> None:
    """Refuse the address of a cluster where nobody answers; Ray would try for minutes.

    Raises:
        ConfigError: an address of another form than `auto` and `host:port`.
        WorkerError: nobody answers.
    """
    named = f"cluster.address={address}"
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)
        if address in ("", "auto"):  # Ray looks for a cluster on this machine
            return
        named = f"{named} (RAY_ADDRESS={address})"
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise ConfigError(
            f"{named} must be auto or HOST:PORT, the address that `ray start --head` printed",
            hint="Ray's client (ray://) can't place workers on nodes: give the command on a node "
            "of the cluster with cluster.address=auto, or by ray job submit (docs/cluster.md)",
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
            if not speaks_grpc(connection):
                raise OSError("another program listens there")
    except (OSError, OverflowError) as error:
        why = f"within {timeout:g} s (cluster.timeouts.ray)"
        if not isinstance(error, TimeoutError):
            why = f"({error})"
        raise WorkerError(
            f"no Ray cluster answers at {named} {why}",
            hint=f"ray status --address={address}; leave cluster.address out to start a cluster "
            "here",
        ) from error


def speaks_grpc(connection: socket.socket) -> bool:
    """Check whether the peer answers as Ray does; not checked with TLS, which begins otherwise."""
    if os.environ.get("RAY_USE_TLS"):
        return True
    connection.sendall(GREETING)
    return connection.recv(len(SETTINGS))[3:4] == SETTINGS[3:4]


class _NotTheCurrentFolder(list[str]):
    """Folders that Ray lets its workers import from before all others. It adds the one the driver
    stands in, in which anything may lie; what the user put on the path is on theirs too."""

    def extend(self, paths: Iterable[str]) -> None:
        here = os.path.abspath(os.path.curdir)
        super().extend(path for path in paths if path != here)


def _job() -> JobConfig:
    job = JobConfig()
    job._py_driver_sys_path = _NotTheCurrentFolder()
    return job


def _close_doors(*, ours: bool) -> None:
    """What Ray's processes inherit of variables.

    A cluster that we start asks whoever connects for a token (Ray does, from 2.59 on). It is
    made here and stays in this process and its children; Ray would leave one in the home folder,
    which may not be writable. Ray reads it once, so it is the same for all clusters of a process.
    """
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = without_current_folder(os.environ["PYTHONPATH"])
    own = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    if ours and not any(os.environ.get(name) for name in own):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(TOKEN_BYTES)


def without_current_folder(paths: str) -> str:
    """A PYTHONPATH whose empty entries, which mean the current folder, are left out, and whose
    relative ones mean the folder that they mean here."""
    return os.pathsep.join(os.path.abspath(path) for path in paths.split(os.pathsep) if path)


def alive_nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster, as Ray lists them."""
    return [node for node in ray.nodes() if node["Alive"]]


def stores(ids: Sequence[str]) -> list[int]:
    """Bytes of the object store of each of these nodes that is there; Ray lists what has left too,
    without its resources."""
    found = {node["NodeID"]: node["Resources"]["object_store_memory"] for node in alive_nodes()}
    return [int(found[name]) for name in ids if name in found]


def nodes_for(worker_specs: WorkerSpecs) -> list[str]:
    """Ids of the nodes that the roster was planned for, in rank order, checked against it.

    An actor that can't be placed would stay pending for ever, so what the roster needs is compared
    with what the nodes have before anything is spawned.

    Raises:
        PlacementError: a node has left since, or has less than it needs.
    """
    alive = {node["NodeID"]: node for node in alive_nodes()}
    # a machine that was planned for before Ray was started on it has no id
    ids = [node.id for node in worker_specs.nodes if node.id] or list(alive)[:1]
    for index, name in enumerate(ids):
        if name not in alive:
            raise PlacementError(
                f"node {index} ({worker_specs.nodes[index].name}) has left the cluster",
                hint="rlcore cluster shows the nodes that are there",
            )
    allocations = [
        member.allocation for members in worker_specs.members.values() for member in members
    ]
    for resource, share in (("CPU", attrgetter("cpus")), ("GPU", attrgetter("gpus"))):
        for index, name in enumerate(ids):
            need = sum(share(one) for one in allocations if one.node == index)
            have = alive[name]["Resources"].get(resource, 0.0)
            if need > have + 1e-6:
                raise PlacementError(
                    f"node {index} has {have:g} {resource}, the placement needs {need:g}",
                    hint="rlcore train ... --dry-run prints the placement",
                )
    return ids
