"""Ray clusters of several nodes on one machine, and commands that join them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

STORE = 80 * 2**20  # bytes of each node's object store; the least that Ray takes is 75 MiB
MOST_SECONDS = 400  # of one command, on a machine that is busy with others
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


def start(words: Sequence[str], cluster: Cluster, place: Path) -> subprocess.Popen[str]:
    """`rlcore WORDS` on the cluster, run in `place`."""
    return subprocess.Popen(
        [sys.executable, "-m", "rlcore.cli.main", *words, f"cluster.address={cluster.address}"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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
