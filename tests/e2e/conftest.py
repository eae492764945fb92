"""Whole runs. One Ray cluster serves all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlcore.config.schema import ClusterConfig


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """Start a cluster that every run of the session joins (see `cluster_session`).

    Its workers find the modules of this folder and of `tests/support`, as some take their policy
    from there.
    """
    from rlcore_ray.cluster import cluster_session

    folder = Path(__file__).parent
    paths = [str(folder), str(folder.parent / "support"), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        with cluster_session(ClusterConfig()):
            yield
