"""Addresses of clusters, looked at before Ray tries them for half a minute."""

from __future__ import annotations

import socket
import threading

import pytest
from rlcore_ray.cluster import check_address

from rlcore.contracts.errors import ConfigError, WorkerError

OTHERS = ["ray://10.0.0.1:10001", "http://10.0.0.1:8265", "head", "head:", ":6379", "local"]


@pytest.mark.parametrize("address", OTHERS)
@pytest.mark.parametrize("source", ["key", "variable"])
def test_an_address_of_another_form_is_refused(
    refused, address: str, source: str, monkeypatch: pytest.MonkeyPatch
):
    """`cluster.address=auto` means what RAY_ADDRESS says, if it is set."""
    monkeypatch.setattr("socket.create_connection", None)  # no connection is tried
    monkeypatch.setenv("RAY_ADDRESS", address)
    named = address if source == "key" else f"auto (RAY_ADDRESS={address})"
    with refused(ConfigError, named, "cluster.address=auto"):
        check_address(address if source == "key" else "auto", 60.0)


def test_the_address_of_the_variable_is_asked(refused, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", "[::1]:6379")
    addresses = []

    def refuse(address: tuple[str, int], timeout: float) -> None:
        addresses.append(address)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    with refused(WorkerError, "cluster.address=auto", "RAY_ADDRESS=[::1]:6379"):
        check_address("auto", 60.0)
    assert addresses == [("::1", 6379)]
    for unset in ("", "auto"):
        monkeypatch.setenv("RAY_ADDRESS", unset)
        check_address("auto", 60.0)
    assert len(addresses) == 1


@pytest.mark.parametrize(
    ("answer", "is_ray"),
    [
        (bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]), True),  # the settings that HTTP/2 begins with
        (b"HTTP/1.0 505 HTTP Version Not Supported\r\n", False),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False),
        (b"", False),  # hangs up
    ],
)
def test_another_program_at_the_address_is_refused(refused, answer: bytes, is_ray: bool):
    """Ray would try it for 40 seconds at a time, without an end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection:
                assert connection.recv(64).startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if is_ray:
            check_address(address, 60.0)
        else:
            with refused(WorkerError, address, text=False):
                check_address(address, 60.0)
        thread.join()
