"""Join or start the Ray cluster of a group of workers, and shut it down."""

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
from rlcore.utils import signals, watchdog
from rlcore.workers.worker_specs import WorkerSpecs
from rlcore_ray.health import RayHealth
from rlcore_ray.preflight import require_startable

TOKEN_BYTES = 32
SHUTDOWN_SECONDS = 30.0  # Ray waits for each of its processes, even for those that are gone
SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # an empty frame; its fourth byte is the kind
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
"""First bytes that an HTTP/2 client, such as gRPC, sends; a server answers with its settings."""
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
        check_address(cluster.address, cluster.timeouts.ray)
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
    """Start Ray, or join a cluster.

    Raises:
        WorkerError: Ray does not start, or can't be joined.
    """
    local = not joins(cluster)
    start = cluster.timeouts.start
    late = WorkerError(f"Ray did not start within {start:g} s (cluster.timeouts.start)")
    try:
        # Ray replaces the handler of SIGTERM by one that exits without a message. Ray's processes
        # inherit that SIGHUP is ignored: workers are needed for the checkpoint after the terminal
        # is closed.
        hangup = dict.fromkeys(signals.HANGUP, signal.SIG_IGN)
        with watchdog.time_limit(late, start), signals.handle_signals(hangup):
            ray.init(
                address="local" if local else cluster.address,
                # the planned CPUs: Ray would otherwise count all cores, with a process for each
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
            f"Ray did not start: {_message(error)}",
            hint="its logs are in /tmp/ray/session_latest/logs (RAY_TMPDIR, TMPDIR); on an "
            "overloaded machine try again; cluster.backend=local does without Ray"
            if local
            else f"ray status --address={cluster.address}; leave cluster.address out to start a "
            "cluster here",
        ) from error


def _message(error: Exception) -> str:
    """Return the first line of Ray's message, or all of it if it reports a version mismatch."""
    text = str(error)
    return " ".join(text.split()) if "ersion mismatch" in text else text.splitlines()[0]


def kill_cluster(health: RayHealth) -> None:
    """Kill a cluster whose processes are gone or stopped, because it can't answer any request.

    The next session may start another cluster.
    """
    watchdog.kill_started()
    _shut_down(health)


def _shut_down(health: RayHealth) -> None:
    """Leave the cluster, and discard the messages that Ray prints at the end."""
    with health.answering("shutdown", SHUTDOWN_SECONDS), contextlib.redirect_stdout(io.StringIO()):
        ray.shutdown()


def check_address(address: str, timeout: float) -> None:
    """Check that a cluster answers at an address, because Ray itself would try for minutes.

    Args:
        timeout: timeout of the connection, in seconds.

    Raises:
        ConfigError: the address has another form than `auto` or `host:port`.
        WorkerError: no cluster answers there.
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
    """Check whether the peer answers like a gRPC server. With TLS the result is always True."""
    if os.environ.get("RAY_USE_TLS"):
        return True
    connection.sendall(GREETING)
    return connection.recv(len(SETTINGS))[3:4] == SETTINGS[3:4]


class _NotTheCurrentFolder(list[str]):
    """Module path of Ray's workers that refuses the driver's current folder.

    Ray adds that folder first, and any file in it could hide a module. Workers inherit PYTHONPATH,
    so the folders that the user put there remain on their path.
    """

    def extend(self, paths: Iterable[str]) -> None:
        current = os.path.abspath(os.path.curdir)
        super().extend(path for path in paths if path != current)


def _job() -> JobConfig:
    job = JobConfig()
    job._py_driver_sys_path = _NotTheCurrentFolder()
    return job


def _close_doors(*, ours: bool) -> None:
    """Set environment variables that Ray's processes inherit, to restrict access.

    PYTHONPATH loses the current folder. A cluster that this process starts requires a token from
    each client (in Ray, from 2.59 on). The token is generated here, and only this process and its
    children have it; Ray would write one to the home folder, which may not be writable. Ray reads
    the token once, so all clusters of a process share it.

    Args:
        ours: whether this process starts the cluster.
    """
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = without_current_folder(os.environ["PYTHONPATH"])
    own = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    if ours and not any(os.environ.get(name) for name in own):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(TOKEN_BYTES)


def without_current_folder(paths: str) -> str:
    """Return a PYTHONPATH without empty entries, which denote the current folder.

    Relative entries become absolute.
    """
    return os.pathsep.join(os.path.abspath(path) for path in paths.split(os.pathsep) if path)


def alive_nodes() -> list[dict[str, Any]]:
    """Return the nodes that are alive, as Ray lists them."""
    return [node for node in ray.nodes() if node["Alive"]]


def stores(ids: Sequence[str]) -> list[int]:
    """Return the bytes of the object store of each of these nodes that is alive.

    Ray also lists nodes that have left, but without resources; these are skipped.
    """
    bytes_of = {node["NodeID"]: node["Resources"]["object_store_memory"] for node in alive_nodes()}
    return [int(bytes_of[node]) for node in ids if node in bytes_of]


def nodes_for(worker_specs: WorkerSpecs) -> list[str]:
    """Return the ids of the planned nodes, in rank order, after checking their resources.

    An actor that can't be placed would stay pending forever. Therefore the CPUs and GPUs that the
    workers need are compared with those of the nodes before any worker is started.

    Raises:
        PlacementError: a node has left the cluster, or has fewer CPUs or GPUs than needed.
    """
    alive = {node["NodeID"]: node for node in alive_nodes()}
    # a node that was planned before Ray was started on it has no id
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
            need = sum(share(process) for process in allocations if process.node == index)
            have = alive[name]["Resources"].get(resource, 0.0)
            if need > have + 1e-6:
                raise PlacementError(
                    f"node {index} has {have:g} {resource}, the placement needs {need:g}",
                    hint="rlcore train ... --dry-run prints the placement",
                )
    return ids
