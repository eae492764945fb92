"""The Ray cluster below a group: joined or started, and what its nodes have."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterable, Iterator

import ray
from ray.job_config import JobConfig

from rlcore import signals, watchdog
from rlcore.config.schema import ClusterConfig
from rlcore.errors import PlacementError, WorkerError
from rlcore.interpreters import without_current_folder
from rlcore.workers.health import RayHealth
from rlcore.workers.roster import Roster
from rlcore.workers.startable import require_startable

TOKEN_BYTES = 32
SHUTDOWN_SECONDS = 30.0  # Ray looks for each of its processes, also for those that are gone
OBJECT_STORE_BYTES = 1_000_000_000  # observations in flight; plasma maps it lazily


@contextlib.contextmanager
def cluster_session(cluster: ClusterConfig) -> Iterator[None]:
    """A Ray cluster for what is inside: joined, or started here and shut down at the end.

    Nested sessions (a sweep around its jobs, a test session around its tests) share it.
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray >= 2.51 would otherwise blank the accelerator variables of actors with num_gpus=0
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _close_doors(ours=cluster.address is None)
    if cluster.address is None:
        require_startable()
    else:
        require_answer(cluster.address, cluster.timeouts.ray)
    with watchdog.marked():
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
    local, start = cluster.address is None, cluster.timeouts.start
    late = WorkerError(f"Ray did not start within {start:g} s (cluster.timeouts.start)")
    try:
        with watchdog.limit(late, start), _own_signals():
            ray.init(
                address="local" if local else cluster.address,
                include_dashboard=False if local else None,
                object_store_memory=OBJECT_STORE_BYTES if local else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
                job_config=_job(),
            )
    except Exception as error:  # Ray raises bare exceptions here
        raise WorkerError(
            f"Ray did not start: {str(error).splitlines()[0]}",
            hint="its logs are in /tmp/ray/session_latest/logs (RAY_TMPDIR, TMPDIR); on an "
            "overloaded machine try again; cluster.backend=local does without Ray"
            if local
            else f"ray status --address={cluster.address}; leave cluster.address out to start a "
            "cluster here",
        ) from error


def kill_cluster(health: RayHealth) -> None:
    """End a cluster whose own processes are gone or stopped, without asking it for anything; the
    next session may start another one."""
    watchdog.kill_started()
    _shut_down(health)


def _shut_down(health: RayHealth) -> None:
    """Leave the cluster, without the pages that Ray has kept to print in the end."""
    with health.answering("shutdown", SHUTDOWN_SECONDS), contextlib.redirect_stdout(io.StringIO()):
        ray.shutdown()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray replaces the handler of SIGTERM by one that exits without a word. What it starts inside
    is not to end with the terminal: workers are needed for the checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in signals.ENDS}
    if "SIGHUP" in vars(signal):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler or signal.SIG_DFL)


def require_answer(address: str, timeout: float) -> None:
    """Refuse the address of a cluster where nobody answers; Ray would try for minutes.

    Raises:
        WorkerError: so it is. An address of another form than `host:port` is Ray's to judge.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout).close()
    except (OSError, OverflowError) as error:
        why = f"within {timeout:g} s (cluster.timeouts.ray)"
        if not isinstance(error, TimeoutError):
            why = f"({error})"
        raise WorkerError(
            f"no Ray cluster answers at cluster.address={address} {why}",
            hint=f"ray status --address={address}; leave cluster.address out to start a cluster "
            "here",
        ) from error


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


def nodes_for(roster: Roster) -> list[str]:
    """Ids of the nodes in rank order (head first, then by address), checked against the roster.

    An actor that can't be placed would stay pending for ever, so what the roster needs is compared
    with what the nodes have before anything is spawned.
    """
    alive = sorted(
        (node for node in ray.nodes() if node["Alive"]),
        key=lambda node: (
            "node:__internal_head__" not in node["Resources"],
            node["NodeManagerAddress"],
        ),
    )
    if len(alive) < roster.cluster.num_nodes:
        raise PlacementError(
            f"cluster.num_nodes is {roster.cluster.num_nodes}, but {len(alive)} joined",
            hint="start Ray on the other nodes (ray start --address=HEAD:6379) and try again",
        )
    for resource in ("CPU", "GPU"):
        for index, node in enumerate(alive):
            members = [member for members in roster.members.values() for member in members]
            seats = [member.seat for member in members if member.seat.node == index]
            need = sum(s.cpus if resource == "CPU" else s.gpus for s in seats)
            have = node["Resources"].get(resource, 0.0)
            if need > have + 1e-6:
                raise PlacementError(
                    f"node {index} has {have:g} {resource}, the placement needs {need:g}",
                    hint="rlcore train ... --dry-run prints the placement",
                )
    return [node["NodeID"] for node in alive]
