"""Ray clusters of several nodes on one machine, and commands that join them."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil
from ray.cluster_utils import Cluster

STORE = 80 * 2**20  # bytes of each node's object store; the least that Ray takes is 75 MiB
MOST_SECONDS = 1200  # of one command, on a machine that is busy with others
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Ended:
    """How a command came out."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def nodes(*each: Mapping[str, Any]) -> Iterator[Cluster]:
    """A cluster with these nodes, the head first; `{}` has two cores."""
    kept = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
    given = [{"num_cpus": 2, "num_gpus": 0, "object_store_memory": STORE, **node} for node in each]
    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **given[0]})
    try:
        for node in given[1:]:
            cluster.add_node(**node)
        yield cluster
    finally:
        cluster.shutdown()
        for name, value in kept.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def node_with_a_disk_of_its_own(cluster: Cluster, place: Path) -> Iterator[None]:
    """Add a node with two cores, which sees an empty folder at `place`. Only root can."""
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--address={cluster.address}",
           "--num-cpus=2", "--num-gpus=0", f"--object-store-memory={STORE}", "--block"]  # fmt: skip
    mount = f"mount -t tmpfs tmpfs {shlex.quote(str(place))} && exec {shlex.join(ray)}"
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mount],
        stdout=subprocess.DEVNULL,
        env={**os.environ, **SETTINGS},
        start_new_session=True,
    )
    try:
        yield
    finally:
        for one in [*psutil.Process(process.pid).children(recursive=True), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()


def may_mount() -> bool:
    """Whether this user may make such a node."""
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True
        )
    except OSError:
        return False
    return done.returncode == 0


def one_error(err: str) -> bool:
    """Whether that is all a command ended with. Hints may repeat what Ray says of its errors."""
    lines = err.splitlines()
    return sum(line.startswith("error:") for line in lines) == 1 and "Traceback" not in err


def start(
    words: Sequence[str],
    cluster: Cluster,
    place: Path,
    address: str | None = None,
    err: int | IO[str] = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """`rlcore WORDS` on the cluster, run in `place`.

    Args:
        address: `auto` where the command is to find the cluster by itself.
        err: where its standard error goes.
    """
    at = f"cluster.address={address or cluster.address}"
    # other clusters of this machine are not to be found
    found = {"RAY_ADDRESS": cluster.address} if address == "auto" else {}
    return subprocess.Popen(
        [sys.executable, "-m", "rlcore.cli.main", *words, at],
        cwd=place,
        env={**os.environ, **found},
        stdout=subprocess.PIPE,
        stderr=err,
        text=True,
    )


def run(words: Sequence[str], cluster: Cluster, place: Path) -> Ended:
    """The same, to its end."""
    process = start(words, cluster, place)
    try:
        out, err = process.communicate(timeout=MOST_SECONDS)
    finally:
        process.kill()
    return Ended(process.returncode, out, err)
