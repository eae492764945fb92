"""Main memory that is free, here and in a container."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rlcore.placement import inventory


@pytest.mark.parametrize(
    ("limits", "free"),
    [({}, 50), ({"memory.max": 40, "memory.current": 30}, 10), ({"memory.current": 30}, 50)],
)
def test_free_memory_of_a_container_is_bounded_by_its_limit(monkeypatch, limits, free):
    """The host has 50 bytes; without a limit nothing of the container counts."""
    memory = SimpleNamespace(available=50)
    monkeypatch.setattr(inventory.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(
        inventory, "_cgroup", lambda name: iter([limits[name]] if name in limits else [])
    )
    assert inventory.free_memory() == free
