"""Whole runs. One Ray cluster serves all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlcore.config.schema import ClusterConfig


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A cluster that every run of the session joins (see `cluster_session`)."""
    from rlcore.workers.cluster import cluster_session

    with cluster_session(ClusterConfig()):
        yield
