"""The Ray cluster below a group: joined or started, and what its nodes have."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import threading
from collections.abc import Iterable, Iterator

import ray
from ray.job_config import JobConfig

from rlcore.config.schema import ClusterConfig
from rlcore.errors import PlacementError, WorkerError
from rlcore.interpreters import without_current_folder
from rlcore.workers.group import GroupPlan
from rlcore.workers.startable import require_startable

TOKEN_BYTES = 32
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
    local = cluster.address is None
    _close_doors(ours=local)
    main_thread = threading.current_thread() is threading.main_thread()
    on_terminate = signal.getsignal(signal.SIGTERM) if main_thread else None
    if local:
        require_startable()
    try:
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
    if main_thread:  # Ray replaces the handler by one that exits without a word
        signal.signal(signal.SIGTERM, on_terminate or signal.SIG_DFL)
    try:
        yield
    finally:
        ray.shutdown()


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

    A cluster of ours asks whoever connects for a token (Ray does, from 2.59 on). It is made here
    and stays in this process and its children; Ray would leave one in the home folder, which may
    not be writable. Ray reads it once, so it is the same for all clusters of a process.
    """
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = without_current_folder(os.environ["PYTHONPATH"])
    own = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    if ours and not any(os.environ.get(name) for name in own):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(TOKEN_BYTES)


def nodes_for(plan: GroupPlan) -> list[str]:
    """Ids of the nodes in rank order (head first, then by address), checked against the plan.

    An actor that can't be placed would stay pending for ever, so what the plan needs is compared
    with what the nodes have before anything is spawned.
    """
    alive = sorted(
        (node for node in ray.nodes() if node["Alive"]),
        key=lambda node: (
            "node:__internal_head__" not in node["Resources"],
            node["NodeManagerAddress"],
        ),
    )
    if len(alive) < plan.cluster.num_nodes:
        raise PlacementError(
            f"cluster.num_nodes is {plan.cluster.num_nodes}, but {len(alive)} joined",
            hint="start Ray on the other nodes (ray start --address=HEAD:6379) and try again",
        )
    for resource in ("CPU", "GPU"):
        for index, node in enumerate(alive):
            members = [member for members in plan.members.values() for member in members]
            seats = [member.seat for member in members if member.seat.node == index]
            need = sum(s.cpus if resource == "CPU" else s.gpus for s in seats)
            have = node["Resources"].get(resource, 0.0)
            if need > have + 1e-6:
                raise PlacementError(
                    f"node {index} has {have:g} {resource}, the placement needs {need:g}",
                    hint="rlcore train ... --dry-run prints the placement",
                )
    return [node["NodeID"] for node in alive]
