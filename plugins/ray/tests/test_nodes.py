"""Versions and network interfaces of joined nodes; over real nodes: e2e/test_nodes.py."""

from __future__ import annotations

import pytest
from rlcore_ray import node_probe
from rlcore_ray.nodes import _interface, _require_same_versions

from rlcore.contracts.errors import PlacementError

HELD = {"lo": ["127.0.0.1"], "eth0": ["10.0.0.7", "fe80::7"], "docker0": ["172.17.0.1"]}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> dict:
    """The facts of this machine, and of a node with the same versions."""
    versions = {"rlcore": "0.1.0", "mine": "2.0"}
    facts = {**node_probe.describe(), "python": "3.11.7", "versions": versions}
    monkeypatch.setattr(node_probe, "describe", lambda: facts)
    return facts


def test_nodes_that_are_alike_are_taken(here: dict):
    _require_same_versions([here, {**here, "python": "3.11.2", "host": "other"}])


def test_another_python_is_named_with_its_node(refused, here: dict):
    with refused(PlacementError, "3.11", "3.12", text=False):  # names this machine
        _require_same_versions([here, {**here, "python": "3.12.1"}])


def test_other_packages_are_named_together(refused, here: dict):
    old = {**here, "versions": {"rlcore": "0.0.9"}}
    with refused(PlacementError, "0.1.0", "0.0.9", "mine", text=False):
        _require_same_versions([old, here])


def test_the_interface_with_the_address_of_the_node_is_taken():
    assert _interface(1, "10.0.0.7", HELD, None) == "eth0"
    assert _interface(1, "10.0.0.9", HELD, None) == ""  # the libraries choose
    assert _interface(1, "10.0.0.7", HELD, "docker0") == "docker0"


def test_a_node_that_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch):
    """A Slurm script may give it; on the node itself a name often stands for the loopback too."""
    held = {"lo": ["127.0.0.1", "127.0.1.1"], "eth0": ["10.0.0.7"]}
    places = {"one": ["127.0.1.1", "10.0.0.7"], "two": ["127.0.1.1"]}

    def getaddrinfo(host: str, port: None) -> list[tuple]:
        if host not in places:
            raise OSError("unknown")
        return [(2, 1, 6, "", (place, 0)) for place in places[host]]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    assert _interface(1, "one", held, None) == "eth0"
    assert _interface(1, "two", held, None) == ""  # the libraries choose
    assert _interface(1, "three", held, None) == ""


def test_an_interface_that_a_node_lacks_is_refused(refused):
    with refused(PlacementError, "cluster.network_interface=", "ib0", "node 1", "10.0.0.7"):
        _interface(1, "10.0.0.7", HELD, "ib0")
