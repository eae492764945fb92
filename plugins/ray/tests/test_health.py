"""Whether the head of a cluster elsewhere still answers; Ray's own processes are struck in
tests/e2e/test_faults.py and tests/e2e/test_node_faults.py."""

from __future__ import annotations

import socket

import pytest
from rlcore_ray import health


def test_a_silent_head_is_reported_once_patience_is_over(
    monkeypatch: pytest.MonkeyPatch,
):
    clock = [0.0]
    monkeypatch.setattr(health.time, "monotonic", lambda: clock[0])
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        head = health._Head(address, patience=1.5)
        clock[0] = 10.0
        assert head.silence() is None
    clock[0] = 12.0  # it is looked at every 5 seconds
    assert head.silence() is None
    for clock[0] in (16.0, 16.5, 17.0):  # 1 second of silence so far
        assert head.silence() is None
    clock[0] = 17.5
    silence = head.silence()
    assert silence is not None and address in silence and "1.5 s" in silence
